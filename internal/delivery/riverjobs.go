package delivery

// Statements of ours that write River's own table stand in this file alone; a test fails when River's version
// changes, so that they are read again beside its schema. They were written for the version in RiverVersion.

// RiverVersion is the River release whose table the statements of this file know.
const RiverVersion = "v0.51.2"

// settleJobs gives the job of each delivery that was moved its due: the end of the delivery ends it, a failure
// sets its clock and spends an attempt of it as River would, anything else sets its clock. It is a part of
// recordAndGrant and reads `moved`.
//
// A job that River is running is left to River, which completes it by what its worker returns. SKIP LOCKED,
// since River's scheduler locks many jobs in its own order: waiting for it could be a deadlock. A job that was
// skipped rings once more and finds its delivery ended, leased or early.
//
// A job due within five seconds is available with its time still to come, as River itself does with a short snooze:
// workers fetch it by their poll. Later ones wait for River's scheduler, which looks five seconds ahead each five
// seconds.
//
// attempt stays below max_attempts while the job may still be fetched: fetching adds one, and the table refuses
// more than max_attempts.
const settleJobs = `
job as (
	select j.id, m.state, m.next_attempt_at, m.spent
	from moved m
	join river.river_job j on j.id = m.job_id
	where j.state <> 'running' and j.finalized_at is null
	for update of j skip locked
),
job_deleted as (
	delete from river.river_job j using job where j.id = job.id and job.state = 'succeeded'
),
job_set as (
	update river.river_job j
	set state = (case
			when job.state = 'exhausted' then 'discarded'
			when job.state = 'rejected' then 'cancelled'
			when job.next_attempt_at is null then 'completed'
			when job.next_attempt_at <= statement_timestamp() + interval '5 seconds' then 'available'
			when job.spent then 'retryable'
			else 'scheduled' end)::river.river_job_state,
		attempt = case when job.spent then least(j.attempt + 1, j.max_attempts - 1) else j.attempt end,
		scheduled_at = coalesce(job.next_attempt_at, j.scheduled_at),
		finalized_at = case when job.next_attempt_at is null then statement_timestamp() end
	from job
	where j.id = job.id and job.state <> 'succeeded'
)`

// freeJobsOfProcess makes the jobs available again that a dead process was running, as if they had not been
// fetched. A process's River client has its id.
const freeJobsOfProcess = `
	update river.river_job
	set state = 'available', attempt = greatest(attempt - 1, 0), scheduled_at = statement_timestamp()
	where state = 'running' and attempted_by[array_upper(attempted_by, 1)] = $1`
