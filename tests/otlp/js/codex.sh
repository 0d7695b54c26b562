#!/bin/sh
# usage (from run.sh): codex.sh LOGS TRACES PROMPT...
# LOGS and TRACES are binary, json or none. The prompts are of one session.
export FAKE_KEY=test-key CODEX_HOME=/tmp/home-dev/.codex
export OTEL_BLRP_SCHEDULE_DELAY=100 OTEL_BSP_SCHEDULE_DELAY=100
exporter() {
  if [ "$1" = none ]; then echo '"none"'; else
    echo "{ otlp-http = { endpoint = \"http://127.0.0.1:4318/v1/$2\", protocol = \"$1\" } }"
  fi
}
mkdir -p "$CODEX_HOME"
echo 'You are a test.' >"$CODEX_HOME/instructions.txt"
cat >"$CODEX_HOME/config.toml" <<T
model = "gpt-test"
model_provider = "fake"
model_instructions_file = "$CODEX_HOME/instructions.txt"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:4100/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 1
stream_max_retries = 0

[analytics]
enabled = false

[otel]
environment = "test"
log_user_prompt = true
log_agent_responses = true
exporter = $(exporter "$1" logs)
trace_exporter = $(exporter "$2" traces)
metrics_exporter = "none"
T
shift 2
resume=
for prompt in "$@"; do
  # shellcheck disable=SC2086
  codex exec $resume --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "$prompt" </dev/null
  resume='resume --last'
done
