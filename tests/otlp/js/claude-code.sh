#!/bin/sh
# usage (from run.sh): claude-code.sh [VARIABLE=VALUE...]
# With MCP=1 the system prompt is short, and the only tool is that of mcp-weather.mjs.
export IS_SANDBOX=1 ANTHROPIC_BASE_URL=http://127.0.0.1:4100 ANTHROPIC_API_KEY=test-key
export DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_MAX_RETRIES=1
export CLAUDE_CODE_ENABLE_TELEMETRY=1 OTEL_LOGS_EXPORTER=otlp OTEL_METRICS_EXPORTER=otlp
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
export OTEL_LOG_USER_PROMPTS=1 OTEL_LOG_TOOL_DETAILS=1 OTEL_LOGS_EXPORT_INTERVAL=500 OTEL_METRIC_EXPORT_INTERVAL=1000
for pair in "$@"; do export "$pair"; done
set -- --model claude-sonnet-4-5 --dangerously-skip-permissions
if [ -n "${MCP:-}" ]; then
  cp "$(dirname "$0")/mcp-weather.mjs" /tmp/home-dev/
  set -- "$@" --tools '' --system-prompt 'You are a test.' --strict-mcp-config \
    --mcp-config '{"mcpServers":{"test":{"command":"node","args":["/tmp/home-dev/mcp-weather.mjs"]}}}'
fi
claude "$@" -p 'Say hello.' </dev/null
claude "$@" -c -p 'What is the weather?' </dev/null
claude "$@" -c -p 'Please fail.' </dev/null
