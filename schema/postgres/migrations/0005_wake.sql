-- A job that is queued wakes the servers that listen.
CREATE FUNCTION wake_workers() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('swarm_memory_jobs', '');
  RETURN NULL;
END
$$;

CREATE TRIGGER jobs_wake AFTER INSERT OR UPDATE OF status, run_after ON jobs
FOR EACH ROW WHEN (NEW.status = 'queued') EXECUTE FUNCTION wake_workers();
