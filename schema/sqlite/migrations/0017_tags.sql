-- What has a tag is found without reading every memory: learning from a task looks for ways out and open problems.

CREATE INDEX pattern_tags_by_tag ON pattern_tags (tag);
