CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    client TEXT NOT NULL,
    workspace TEXT,
    project TEXT,
    user_id TEXT,
    session_id TEXT,
    message_count INTEGER DEFAULT 0,
    total_tokens_in INTEGER DEFAULT 0,
    total_tokens_out INTEGER DEFAULT 0,
    total_latency_ms INTEGER DEFAULT 0,
    status TEXT DEFAULT 'active',
    last_error TEXT
);

CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    timestamp TIMESTAMP NOT NULL,
    role TEXT NOT NULL,
    source TEXT NOT NULL,
    content TEXT NOT NULL,
    content_type TEXT DEFAULT 'text',
    model_used TEXT,
    config_used TEXT,
    orchestration_mode TEXT,
    models_in_chain TEXT,  -- JSON array
    tokens_in INTEGER,
    tokens_out INTEGER,
    latency_ms INTEGER,
    context_utilization REAL,
    task_type TEXT,
    handoff_steps INTEGER,
    compression_applied BOOLEAN,
    error TEXT,
    error_type TEXT,
    FOREIGN KEY (conversation_id) REFERENCES conversations(id)
);

CREATE INDEX idx_messages_conversation ON messages(conversation_id);
CREATE INDEX idx_messages_timestamp ON messages(timestamp);
CREATE INDEX idx_conversations_workspace ON conversations(workspace);
CREATE INDEX idx_conversations_created ON conversations(created_at);
