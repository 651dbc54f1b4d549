// While a run is going on: ask the server that sent this page how far it is, and reload when there are new results.

const LIVE_EVERY = 1500;

function startLive() {
  if (!DATA.live) return;
  const target = document.getElementById("live");
  let version = null;
  const ask = async () => {
    try {
      const answer = await fetch("status.json", { cache: "no-store" });
      const status = await answer.json();
      drawLive(target, status);
      if (version !== null && status.version !== version) return location.reload();
      version = status.version;
    } catch {
      replace(target, h("p", { class: "live-line" }, t("The server does not respond; this page shows the last known state.")));
    }
    return setTimeout(ask, LIVE_EVERY);
  };
  ask();
}

function drawLive(target, status) {
  replace(target, status.runs.map(liveRun));
}

function liveRun(run) {
  const { step } = run;
  const rate = step && step.rate > 0 ? `${compact(step.rate)}/s` : "";
  const left = step && step.total && step.rate > 0 ? t("{time} left", { time: duration((step.total - step.done) / step.rate) }) : "";
  const jobs = run.jobs ? t("{done} of {total} results", run.jobs) : "";
  const parts = [jobs, step && `${told(step.name)}${step.total ? ` ${step.done.toLocaleString("en")}/${step.total.toLocaleString("en")}` : ` ${step.done.toLocaleString("en")}`}`, rate, left].filter(Boolean);
  const share = step && step.total ? step.done / step.total : 0;
  return h(
    "div",
    { class: `live-line ${run.state}` },
    h("span", { class: "live-state" }, t({ running: word("Running"), done: word("Finished"), stalled: word("No news") }[run.state] || run.state)),
    h("span", {}, data(parts.join(" · "))),
    run.state === "running" && h("progress", { max: "1", value: share, "aria-label": t("Progress of the step") }),
  );
}
