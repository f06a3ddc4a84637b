package delivery

// recordAndGrant is one statement, so that results cost a share of it. In the order of its parts: the results;
// the leases they free, which is the fence: only a lease that is still this process's counts; their attempts;
// their deliveries; the places in line of those that go on; their jobs (riverjobs.go); how much room each
// endpoint has; who is next, the endpoints in turn; their leases; the endpoints' counters and health.
//
// The columns of the results travel through RETURNING: joining two sets that have no statistics would be
// planned as a nested loop over the whole batch.
//
// endpoint_state is locked by the statement before. Rows that this one puts in line are not seen by it: they
// are due later, or its caller looks again.
const recordAndGrant = `
with r as (
	select * from unnest($5::uuid[], $6::uuid[], $7::uuid[], $8::int[], $9::smallint[], $10::text[], $11::text[],
		$12::text[], $13::text[], $14::smallint[], $15::interval[], $16::int[], $17::int[], $18::int[], $19::int[],
		$20::int[], $21::bool[], $22::text[], $23::text[], $24::bytea[], $25::bool[], $26::text[], $27::text[],
		$28::smallint[], $29::smallint[], $30::bool[], $31::interval[], $32::text[], $33::text[], $34::text[])
		with ordinality as r(event_id, endpoint_id, tenant_id, number, try, outcome, class, reason, sent, status,
		elapsed, dns_us, connect_us, tls_us, first_byte_us, total_us, reused, protocol, head, body, cut, state, because,
		deferrals, interruptions, internal, delay, trace, trigger, health, ord)
),
freed as (
	delete from gateway.leases l using r
	where l.event_id = r.event_id and l.endpoint_id = r.endpoint_id and l.tenant_id = r.tenant_id
	  and l.process_id = $1 and l.number = r.number
	returning r.*, l.started_at
),
wrote as (
	insert into gateway.attempts (event_id, endpoint_id, number, id, tenant_id, process_id, try, trigger, outcome, class,
		reason, sent, status, started_at, ended_at, dns_us, connect_us, tls_us, first_byte_us, total_us, reused, protocol,
		response_headers, response_body, response_truncated, next_attempt_at, trace_parent)
	select f.event_id, f.endpoint_id, f.number, gateway.uuid_v7_beside(f.event_id), f.tenant_id, $1, f.try, f.trigger,
		f.outcome, f.class, f.reason, f.sent, f.status, f.started_at, f.started_at + f.elapsed, f.dns_us, f.connect_us,
		f.tls_us, f.first_byte_us, f.total_us, f.reused, f.protocol, f.head::jsonb, f.body, f.cut,
		statement_timestamp() + f.delay, f.trace
	from freed f
),
moved as (
	update gateway.deliveries d
	set state = case when d.state in ('pending', 'retrying') or f.state = 'succeeded' then f.state else d.state end,
		reason = case when d.state in ('pending', 'retrying') or f.state = 'succeeded' then f.because else d.reason end,
		attempts = f.number,
		tries = coalesce(f.try, d.tries),
		deferrals = f.deferrals,
		interruptions = f.interruptions,
		internal_since = case when f.internal then coalesce(d.internal_since, statement_timestamp()) end,
		next_attempt_at = case when d.state in ('pending', 'retrying') then statement_timestamp() + f.delay end,
		last_class = f.class,
		last_status = f.status,
		last_attempt_at = f.started_at,
		ended_at = case when f.delay is null then statement_timestamp() when d.state in ('pending', 'retrying') then null else d.ended_at end
	from freed f
	where d.event_id = f.event_id and d.endpoint_id = f.endpoint_id and d.tenant_id = f.tenant_id
	returning d.event_id, d.endpoint_id, d.tenant_id, d.state, d.job_id, d.next_attempt_at, f.try is not null as spent
),
lined as (
	insert into gateway.line (endpoint_id, due_at, event_id, tenant_id)
	select endpoint_id, next_attempt_at, event_id, tenant_id from moved where next_attempt_at is not null
),` + settleJobs + `,
` + grantNext + `
select (ord - 1)::int, null::uuid, null::uuid, null::uuid, null::bigint, null::int[], null::int, null::text,
	null::timestamptz, null::int, null::int, null::int, null::interval, null::interval,
	null::text, null::text, null::text, null::timestamptz, null::bytea, null::text[], null::text[], null::text
from freed
union all
` + selectGranted

// grantAlone is recordAndGrant without results, as after a pass: what would record them costs more to set up than a few
// grants.
const grantAlone = `
with freed as (select null::uuid as endpoint_id, 0 as ord, '' as health, '' as class where false),` + grantNext + selectGranted

// grantNext is the part that grants: it reads freed.
const grantNext = `
room as (
	select s.endpoint_id, s.tenant_id, e.timeout_ms, e.version, e.schedule,
		greatest(least(s.allowance, e.max_in_flight) - s.in_flight
			+ (select count(*) from freed f where f.endpoint_id = s.endpoint_id), 0) as free
	from gateway.endpoint_state s
	join gateway.endpoints e on e.id = s.endpoint_id and e.tenant_id = s.tenant_id
	join gateway.tenants t on t.id = s.tenant_id
	where s.endpoint_id = any ($4) and e.state = 'enabled' and e.deleted_at is null and t.state = 'active'
	  and (s.cooldown_until is null or s.cooldown_until <= statement_timestamp())
),
next as (
	select l.endpoint_id, l.due_at, l.event_id, l.tenant_id, room.timeout_ms, room.version, room.schedule
	from room
	cross join lateral (
		select q.*, row_number() over () as turn
		from (select endpoint_id, due_at, event_id, tenant_id from gateway.line
		      where endpoint_id = room.endpoint_id and tenant_id = room.tenant_id and due_at <= statement_timestamp()
		      order by due_at, event_id limit least(room.free, $3)) q) l
	order by l.turn, l.due_at
	limit $3
),
taken as (
	delete from gateway.line l using next n
	where l.endpoint_id = n.endpoint_id and l.due_at = n.due_at and l.event_id = n.event_id and l.tenant_id = n.tenant_id
	returning n.endpoint_id, n.event_id, n.tenant_id, n.timeout_ms, n.version, n.schedule
),
granted as (
	select t.endpoint_id, t.event_id, t.tenant_id, t.timeout_ms, t.version, t.schedule, d.attempts + 1 as number,
		d.tries, d.trigger, d.deferrals, d.interruptions, statement_timestamp() - d.internal_since as internal_for,
		statement_timestamp() - d.run_started_at as run_age,
		v.uid, v.type, v.subject, v.occurred_at, v.data, v.scopes, v.previous_scopes, v.trace_parent
	from taken t
	join gateway.deliveries d on d.event_id = t.event_id and d.endpoint_id = t.endpoint_id and d.tenant_id = t.tenant_id
	left join gateway.events v on v.id = t.event_id and v.tenant_id = t.tenant_id
	where d.state in ('pending', 'retrying')
),
leased as (
	insert into gateway.leases (event_id, endpoint_id, tenant_id, process_id, number, try, started_at, ends_at)
	select event_id, endpoint_id, tenant_id, $1, number, tries + 1, statement_timestamp(),
		statement_timestamp() + timeout_ms * interval '1 millisecond' + $2::interval
	from granted
),
counted as (
	update gateway.endpoint_state s
	set in_flight = greatest(s.in_flight - c.freed + c.granted, 0), -- a wrong count must not stop a record; it is recounted
		failing_since = case c.verdict when 'good' then null when 'bad' then coalesce(s.failing_since, statement_timestamp()) else s.failing_since end,
		failures = case c.verdict when '' then s.failures when 'good' then 0 else c.failures + case when c.mended then 0 else s.failures end end,
		last_class = case when c.verdict = '' then s.last_class else c.class end,
		last_failure_at = case c.verdict when 'bad' then statement_timestamp() else s.last_failure_at end,
		last_success_at = case c.verdict when 'good' then statement_timestamp() else s.last_success_at end
	from (select e.id as endpoint_id, coalesce(last.health, '') as verdict, last.class,
			(select count(*) from freed f where f.endpoint_id = e.id) as freed,
			(select count(*) from granted g where g.endpoint_id = e.id) as granted,
			(select count(*) from freed f where f.endpoint_id = e.id and f.health = 'bad' and f.ord >
				(select coalesce(max(ord), 0) from freed f where f.endpoint_id = e.id and f.health = 'good')) as failures,
			exists (select 1 from freed f where f.endpoint_id = e.id and f.health = 'good') as mended
		from unnest($4::uuid[]) e(id)
		left join lateral (select f.health, f.class from freed f where f.endpoint_id = e.id and f.health <> '' order by f.ord desc limit 1) last on true) c
	-- A chain of successes changes nothing but the time of the last one, which is kept to ten seconds.
	where s.endpoint_id = c.endpoint_id and (c.freed <> c.granted or c.verdict = 'bad' or c.verdict = 'good'
		and (s.failing_since is not null or s.last_success_at is null or s.last_success_at < statement_timestamp() - interval '10 seconds'))
)
`

// selectGranted are the grants, in the columns that done.read reads.
const selectGranted = `
select null::int, event_id, endpoint_id, tenant_id, version, schedule, number, trigger,
	statement_timestamp(), tries, deferrals, interruptions, internal_for, run_age,
	uid, type, subject, occurred_at, data, scopes, previous_scopes, trace_parent
from granted`
