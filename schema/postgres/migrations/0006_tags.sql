-- What has a tag is found without reading every memory.
CREATE INDEX pattern_tags_by_tag ON pattern_tags (tag);
