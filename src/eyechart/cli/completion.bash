_eyechart() {
    local line="${COMP_LINE:0:COMP_POINT}" key="" part previous current prefix words
    local -a parts
    read -ra parts <<< "$line"
    case "$line" in *" ") parts+=("") ;; esac
    current="${parts[${#parts[@]}-1]}"
    previous="${parts[${#parts[@]}-2]}"
    unset "parts[${#parts[@]}-1]"
    for part in "${parts[@]:1}"; do
        case "$key/$part" in @paths@) key="$key/$part" ;; esac
    done
    case "$key $previous" in
@values@
    *)
        case "$current" in
        -*)
            case "$key" in
@flags@
            esac ;;
        *)
            case "$key" in
@words@
            esac ;;
        esac ;;
    esac
    # Without a first letter there are hundreds of names: offer files instead.
    if [ -z "$current" ] && [ "${#words}" -gt @most@ ]; then words=""; fi
    # Bash splits words at colons: the part before the last one is already on the line.
    prefix="${current%"${current##*:}"}"
    COMPREPLY=()
    while IFS= read -r part; do COMPREPLY+=("${part#"$prefix"}"); done < <(compgen -W "$words" -- "$current")
}
complete -o default -o bashdefault -F _eyechart eyechart
