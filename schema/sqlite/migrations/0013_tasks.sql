-- Tasks are listed by when they ended, by agent and by verdict, without reading what was done in them.
ALTER TABLE task_trajectories ADD COLUMN source TEXT;

ALTER TABLE task_trajectories ADD COLUMN session_id TEXT;

ALTER TABLE task_trajectories ADD COLUMN failures INTEGER;

-- Only of the newest: a bank is opened while somebody waits.
UPDATE task_trajectories
SET source = coalesce(trajectory_json ->> '$.source', 'steps'), session_id = trajectory_json ->> '$.session_id'
WHERE seq > (SELECT max(seq) - 2000 FROM task_trajectories) AND json_valid(trajectory_json);

CREATE INDEX task_trajectories_by_time
ON task_trajectories (scope_id, coalesce(ended_at, created_at), judge_label, source, task_id);

CREATE INDEX tool_calls_failed ON tool_calls (scope_id, created_at) WHERE success = 0;
