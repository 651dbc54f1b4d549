// All results with where they came from, and the dialog of one.

const RESULTS_SHOWN = 100;

function resultsView(main, params) {
  const asked = Number.parseInt(params.get("model"), 10);
  const state = { query: "", model: asked in MODELS ? String(asked) : "", only: params.get("only") ?? "", all: false };
  const body = h("tbody", {});
  const summary = h("p", { class: "note", role: "status" });
  const more = h("div", {});
  const draw = () => {
    const words = wordsOf(state.query);
    const rows = DATA.results.filter(([m, b, , , , warnings, fewer]) => {
      const text = `${MODELS[m].label} ${BENCHMARKS[b].label} ${BENCHMARKS[b].task}`.toLowerCase();
      const kept = { fewer: fewer.length > 0, warnings: warnings.length > 0 }[state.only] ?? true;
      return kept && (state.model === "" || Number(state.model) === m) && words.every((word) => text.includes(word));
    });
    const shown = state.all ? rows : rows.slice(0, RESULTS_SHOWN);
    replace(body, shown.map((row) => resultRow(row)));
    replace(summary, t("{count}.", { count: count(rows.length, "result") }));
    replace(more, rows.length > shown.length && button(t("Show all {n}", { n: rows.length }), () => { state.all = true; draw(); }));
  };
  const update = (values) => { Object.assign(state, values); draw(); };
  const card = h("div", {});
  const drawCard = () => replace(card, state.model !== "" && modelCard(Number(state.model)));
  replace(
    main,
    h("h1", {}, t("Results")),
    h("p", { class: "lead" }, t("Every number with its settings, and the command to reproduce it.")),
    h(
      "div",
      { class: "toolbar" },
      search(t("Filter results"), "", (query) => update({ query })),
      select(t("Model"), [["", t("all models")], ...MODELS.map((model, m) => [m, model.label])], state.model, (model) => { update({ model }); drawCard(); }),
      select(t("Only"), [["", t("everything")], ["fewer", t("with lost samples")], ["warnings", t("with warnings")]], state.only, (only) => update({ only })),
    ),
    card,
    summary,
    scrollable(t("Results"), h("table", { class: "plain-table numbers results" }, h("thead", {}, h("tr", {}, [t("Benchmark"), t("Model"), t("Value"), t("95 % interval"), t("Warnings"), t("Missing"), ""].map((text, k) => h("th", { scope: "col", class: k === 1 || k === 4 ? "text" : null }, text || h("span", { class: "offscreen" }, t("Open")))))), body)),
    more,
  );
  draw();
  drawCard();
}

function resultRow([m, b, values, low, high, warnings, fewer]) {
  const benchmark = BENCHMARKS[b];
  const i = benchmark.primary.find((place) => values[place] !== null) ?? values.findIndex((value) => value !== null);
  const percent = i >= 0 && columnPercent({ b, i });
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: `#/benchmark/${b}?model=${m}` }, data(benchmark.label)), h("small", {}, ` ${benchmark.short[i] ?? ""}`)),
    h("td", { class: "text" }, data(MODELS[m].label)),
    h("td", {}, number(values[i], 2, percent)),
    h("td", {}, range(low[i], high[i], 2, percent) || "–"),
    h("td", { class: "text" }, warnings.length ? warnings.map((place) => h("p", { class: "cause" }, data(told(DATA.warnings[place][1])))) : "–"),
    h("td", {}, toldList(fewer.filter((text) => /^\d/.test(text))) || "–"),
    h("td", {}, button(t("Details"), () => openResult(m, b), { class: "quiet", "aria-label": t("Details of {model} on {benchmark}", { model: MODELS[m].label, benchmark: benchmark.label }) })),
  );
}

function modelCard(m) {
  const model = MODELS[m];
  return h("section", { class: "model-card" }, h("h2", {}, data(model.name)), facts([[t("Pretrained"), model.pretrained], [t("Family"), model.family], [t("Parameters"), model.parameters && compact(model.parameters)], [t("Image size"), model.image_size], [t("Throughput"), model.throughput && `${compact(model.throughput)} ${told(model.unit)}`], [t("Peak memory"), model.memory && bytes(model.memory)], [t("Results by"), model.origin]]));
}

function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, data(String(value))))));
}

async function openResult(m, b) {
  const turn = turns;
  const chunk = await chunkOf(b);
  if (turn !== turns) return;
  const benchmark = BENCHMARKS[b];
  const result = resultOf(m, b);
  const described = chunk.results[m];
  const { provenance, model_card: card, data: source, counts, job } = described;
  const rows = benchmark.metrics.map((name, i) => ({ name, i })).filter(({ i }) => result.values[i] !== null);
  const reachable = benchmark.reachable.some((value) => value !== null);
  const metricRow = ({ name, i }) => {
    const percent = columnPercent({ b, i });
    const levels = [benchmark.chance[i], ...(reachable ? [benchmark.reachable[i]] : [])].map((level) => number(level, 2, percent) || "–");
    return tableRow([data(name), lowerIsBetter({ b, i }) && " ↓"], [h("b", {}, number(result.values[i], 2, percent)), interval(name, i, percent), ...levels]);
  };
  const interval = (name, i, percent) => {
    const covers = described.covers[name];
    return h("span", { title: covers ? t("covers the choice of {what}", { what: toldList(covers) }) : null }, range(result.low[i], result.high[i], 2, percent) || "–");
  };
  openDialog(
    [data(MODELS[m].label), " on ", data(benchmark.label)],
    result.differs.length > 0 && h("p", { class: "warning" }, t("Not comparable with the best of its column: other {list}.", { list: toldList(result.differs) })),
    result.fewer.length > 0 && h("p", { class: "warning" }, t("With lost samples: {list}.", { list: toldList(result.fewer) })),
    plainTable(t("Metrics"), [t("Metric"), t("Value"), t("95 % interval"), t("Chance"), ...(reachable ? [t("Best reachable")] : [])], rows.map(metricRow)),
    described.judges.length > 0 && [h("h3", {}, t("Judges and tokens")), h("ul", {}, described.judges.map((line) => h("li", {}, data(told(line)))))],
    provenance.command && [h("h3", {}, t("To reproduce it")), h("div", { class: "command-box" }, h("code", { class: "command", tabindex: "0" }, data(String(provenance.command))), button(t("Copy"), () => copyText(String(provenance.command), t("Command")), { class: "quiet", "aria-label": t("Copy the command") }))],
    h("h3", {}, t("Provenance")),
    facts([
      [t("Samples"), Object.entries(counts).map(([name, n]) => `${n} ${t(name)}`).join(t(", "))],
      [t("Split"), source.split],
      [t("Data"), source.source],
      [t("Data fingerprint"), source.fingerprint],
      [t("Prompts"), source.prompts_digest ?? source.templates_digest],
      [t("Precision"), card.precision ?? provenance.precision],
      [t("Weights"), card.weights_digest],
      [t("Parameters"), card.parameters && compact(card.parameters)],
      [t("Device"), [provenance.device, provenance.device_name].filter(Boolean).join(t(", "))],
      [t("Peak memory"), provenance.peak_memory && bytes(provenance.peak_memory)],
      [t("Seconds"), provenance.seconds],
      [t("Date"), provenance.date],
      [t("Versions"), provenance.versions && Object.entries(provenance.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
      ["Python", provenance.python],
      [t("Platform"), provenance.platform],
      [t("Job"), job.digest],
      [t("Result file"), described.file],
    ]),
    incidents(described),
    h("p", {}, h("a", { href: `#/benchmark/${b}?model=${m}`, on: { click: () => document.querySelector("dialog[open]")?.close() } }, t("Open the benchmark"))),
  );
}
