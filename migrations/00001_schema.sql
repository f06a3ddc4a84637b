-- +goose Up

-- Ids -------------------------------------------------------------------------------------------
-- UUIDv7: 48 bits of Unix milliseconds, then random bits. Made here, by the database's clock.

-- +goose StatementBegin
create function gateway.uuid_v7() returns uuid
	language sql volatile parallel safe set search_path = pg_catalog
as $$
	-- A v4 uuid with its first six bytes replaced by the time, and bits 52 and 53 set: version 0100 -> 0111.
	select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
		placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
		from 1 for 6), 52, 1), 53, 1), 'hex')::uuid
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function gateway.uuid_v7_beside(other uuid) returns uuid
	language sql volatile parallel safe set search_path = pg_catalog
as $$
	-- An id with the millisecond of another: a look-up by it adds bounds on the other's column.
	select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
		placing substring(uuid_send(other) from 1 for 6) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function gateway.uuid_floor(at timestamptz) returns uuid
	language sql immutable parallel safe set search_path = pg_catalog
as $$
	-- The lowest uuid of a millisecond; the bound of a partition or of a search by time.
	select (encode(substring(int8send((extract(epoch from at) * 1000)::bigint) from 3), 'hex')
		|| '00000000000000000000')::uuid
$$;
-- +goose StatementEnd

-- Tenants and who may speak for them ---------------------------------------------------------------

create table gateway.tenants (
	id             uuid primary key default gateway.uuid_v7(),
	uid            text unique check (uid ~ '^[A-Za-z0-9_-]{1,128}$'),
	name           text not null,
	state          text not null default 'active' check (state in ('active', 'suspended')),
	metadata       jsonb not null default '{}',
	-- Bumped in the transaction of every change of an endpoint: what a cache of endpoints is as old as.
	config_version bigint not null default 1,
	-- Tokens issued before it are refused: revokes all of a tenant's tokens, an outside issuer's included.
	token_epoch    timestamptz not null default '-infinity',
	version        bigint not null default 1,
	created_at     timestamptz not null default now(),
	updated_at     timestamptz not null default now(),
	suspended_at   timestamptz,
	deleted_at     timestamptz
);

create table gateway.auth_keys (
	kid         text primary key,
	algorithm   text not null check (algorithm = 'EdDSA'),
	public_key  bytea not null,
	private_key bytea not null, -- sealed
	state       text not null check (state in ('published', 'signing', 'verifying', 'retired')),
	created_at  timestamptz not null default now(),
	signing_at  timestamptz,
	retires_at  timestamptz
);
create unique index auth_keys_one_signing on gateway.auth_keys (state) where state = 'signing';

create table gateway.tokens (
	id           uuid primary key default gateway.uuid_v7(), -- the token's jti
	tenant_id    uuid references gateway.tenants, -- null: an operator's
	name         text not null,
	subject      text not null,
	scopes       text[] not null,
	event_scopes text[], -- null: all
	kid          text not null,
	created_by   text,
	created_at   timestamptz not null default now(),
	expires_at   timestamptz not null,
	last_used_at timestamptz,
	revoked_at   timestamptz
) with (fillfactor = 80);
create index tokens_tenant on gateway.tokens (tenant_id, id);

create table gateway.sessions (
	id         uuid primary key default gateway.uuid_v7(),
	secret     bytea not null unique, -- SHA-256 of the cookie
	token_id   uuid references gateway.tokens,
	tenant_id  uuid references gateway.tenants,
	role       text not null,
	claims     jsonb not null default '{}',
	created_at timestamptz not null default now(),
	expires_at timestamptz not null
);
create index sessions_expiry on gateway.sessions (expires_at);

create table gateway.portal_codes (
	code        bytea primary key, -- SHA-256
	tenant_id   uuid not null references gateway.tenants,
	endpoint_id uuid,
	role        text not null,
	options     jsonb not null default '{}',
	created_at  timestamptz not null default now(),
	expires_at  timestamptz not null,
	used_at     timestamptz
);
create index portal_codes_expiry on gateway.portal_codes (expires_at);

-- Endpoints ----------------------------------------------------------------------------------------

create table gateway.endpoints (
	id              uuid primary key default gateway.uuid_v7(),
	tenant_id       uuid not null references gateway.tenants,
	uid             text check (uid ~ '^[A-Za-z0-9_-]{1,128}$'),
	url             text not null check (length(url) <= 2048),
	description     text not null default '',
	types           text[] not null check (cardinality(types) between 1 and 50),
	scopes          text[] not null check (cardinality(scopes) between 1 and 50),
	headers         bytea, -- sealed: a JSON object of the endpoint's own headers
	header_names    text[] not null default '{}',
	metadata        jsonb not null default '{}',
	timeout_ms      integer not null default 15000 check (timeout_ms between 1000 and 30000),
	max_in_flight   smallint not null default 50 check (max_in_flight between 1 and 100),
	rate_per_second integer check (rate_per_second >= 1),
	schedule        integer[], -- seconds between tries; null: the gateway's own
	traceparent     boolean not null default true,
	state           text not null default 'enabled' check (state in ('enabled', 'paused', 'disabled')),
	disabled_reason text check (disabled_reason in ('failing', 'gone', 'manual')),
	state_at        timestamptz not null default now(),
	state_by        text,
	version         bigint not null default 1,
	created_by      text,
	created_at      timestamptz not null default now(),
	updated_at      timestamptz not null default now(),
	deleted_at      timestamptz,
	check ((state = 'disabled') = (disabled_reason is not null))
);
create unique index endpoints_uid on gateway.endpoints (tenant_id, uid) where uid is not null and deleted_at is null;
create index endpoints_tenant on gateway.endpoints (tenant_id, id) where deleted_at is null;

-- What moves with each attempt. Apart from gateway.endpoints, so that an endpoint's row and its ETag keep still.
-- Whoever touches leases, or the line of an endpoint, locks its row here first, in the order of the ids.
create table gateway.endpoint_state (
	endpoint_id     uuid primary key,
	tenant_id       uuid not null,
	allowance       smallint not null default 10,
	in_flight       smallint not null default 0 check (in_flight >= 0), -- leases in use
	failing_since   timestamptz,
	last_failure_at timestamptz,
	last_success_at timestamptz,
	last_class      text,
	failures        integer not null default 0, -- in a row
	warned          smallint not null default 0, -- per cent of the way to being disabled that was told
	cooldown_until  timestamptz,
	cooldown_step   smallint not null default 0,
	next_grant_at   timestamptz, -- of an endpoint with a rate
	held_expired_at timestamptz
) with (fillfactor = 70);

create table gateway.endpoint_secrets (
	id          uuid primary key default gateway.uuid_v7(),
	endpoint_id uuid not null references gateway.endpoints,
	tenant_id   uuid not null,
	sealed      bytea not null,
	fingerprint text not null,
	created_at  timestamptz not null default now(),
	retires_at  timestamptz -- null: the newest; else it signs on until then
);
create unique index endpoint_secrets_newest on gateway.endpoint_secrets (endpoint_id) where retires_at is null;
create index endpoint_secrets_endpoint on gateway.endpoint_secrets (endpoint_id, id desc);

-- The outbox ---------------------------------------------------------------------------------------

create table gateway.events (
	seq             bigint generated always as identity, -- orders a claim within a tenant and nothing else
	id              uuid primary key default gateway.uuid_v7(),
	tenant_id       uuid not null,
	uid             text check (uid ~ '^[A-Za-z0-9_-]{1,128}$'),
	type            text not null check (length(type) <= 128),
	subject         text,
	scopes          text[] not null default '{}',
	previous_scopes text[] not null default '{}',
	occurred_at     timestamptz not null,
	accepted_at     timestamptz not null default clock_timestamp(),
	data            bytea, -- the bytes as they came; null: erased
	fingerprint     bytea not null, -- SHA-256 of what the caller said
	origin          text not null default 'api' check (origin in ('api', 'publish', 'watch', 'gateway')),
	request_id      text,
	trace_parent    text,
	token_id        uuid,
	fanned_out_at   timestamptz,
	fanout          jsonb,
	relay_failures  smallint not null default 0,
	relay_error     text,
	next_relay_at   timestamptz not null default '-infinity',
	poisoned_at     timestamptz,
	erased_at       timestamptz,
	xid             xid8 not null default pg_current_xact_id()
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
create index events_backlog on gateway.events (tenant_id, seq) where fanned_out_at is null and poisoned_at is null;
create index events_poisoned on gateway.events (poisoned_at) where poisoned_at is not null;
create index events_tenant on gateway.events (tenant_id, id);
create unique index events_uid on gateway.events (tenant_id, uid) where uid is not null;

create table gateway.watches (
	tbl             oid primary key,
	tenant_column   name not null,
	type_prefix     text not null,
	columns         name[],
	operations      text[] not null,
	subject_columns name[] not null,
	scopes_column   name,
	old_values      boolean not null default false,
	created_by      name not null default current_user,
	created_at      timestamptz not null default now()
);

create table gateway.event_types (
	tenant_id     uuid not null,
	name          text not null,
	description   text not null default '',
	visibility    text not null default 'external' check (visibility in ('external', 'internal')),
	declared      boolean not null default false,
	shape         jsonb,
	count         bigint not null default 0,
	first_seen_at timestamptz,
	last_seen_at  timestamptz,
	version       bigint not null default 1,
	primary key (tenant_id, name)
) with (fillfactor = 70);

create table gateway.idempotency_keys (
	tenant_id   uuid not null, -- nil: an operator's call
	key         text not null,
	fingerprint bytea not null,
	status      smallint not null,
	response    bytea not null, -- sealed
	created_at  timestamptz not null default now(),
	expires_at  timestamptz not null,
	primary key (tenant_id, key)
);
create index idempotency_keys_expiry on gateway.idempotency_keys (expires_at);

-- Deliveries and attempts --------------------------------------------------------------------------
-- Partitioned by the day of the event, so that old ones are dropped and the key stays unique over all of them.

create table gateway.deliveries (
	event_id        uuid not null,
	endpoint_id     uuid not null,
	id              uuid not null,
	tenant_id       uuid not null,
	type            text not null,
	subject         text,
	accepted_at     timestamptz not null, -- the event's
	state           text not null check (state in ('pending', 'retrying', 'held', 'succeeded', 'exhausted', 'rejected', 'cancelled')),
	reason          text,
	trigger         text not null default 'event' check (trigger in ('event', 'test', 'retry', 'replay', 'resume')),
	job_id          bigint, -- its river_job
	priority        smallint not null default 1,
	attempts        integer not null default 0, -- over its life: the number of the last one
	tries           smallint not null default 0, -- spent of this run's schedule
	deferrals       smallint not null default 0, -- of this run
	interruptions   smallint not null default 0, -- in a row, of this run
	internal_since  timestamptz, -- first of the internal errors in a row
	run_started_at  timestamptz not null default clock_timestamp(),
	next_attempt_at timestamptz, -- null once ended or held
	last_class      text,
	last_status     smallint,
	last_attempt_at timestamptz,
	created_at      timestamptz not null default clock_timestamp(),
	ended_at        timestamptz,
	-- In the predicate of an index in place of the state: a success changes no indexed value, so its update is HOT.
	set_aside       boolean generated always as (state in ('held', 'exhausted', 'rejected', 'cancelled')) stored,
	primary key (event_id, endpoint_id)
) partition by range (event_id);
create index deliveries_endpoint on gateway.deliveries (endpoint_id, event_id);
create index deliveries_tenant on gateway.deliveries (tenant_id, event_id);
create index deliveries_set_aside on gateway.deliveries (endpoint_id, event_id) where set_aside;

create table gateway.attempts (
	event_id      uuid not null,
	endpoint_id   uuid not null,
	number        integer not null,
	id            uuid not null,
	tenant_id     uuid not null,
	process_id    uuid not null,
	try           smallint, -- its place in the schedule; null: none was spent
	trigger       text not null,
	outcome       text not null check (outcome in ('succeeded', 'failed', 'deferred', 'rejected', 'interrupted', 'internal')),
	class         text not null,
	reason        text, -- a finer code, as tls_expired
	sent          text not null check (sent in ('yes', 'no', 'unknown')),
	status        smallint,
	started_at    timestamptz not null,
	ended_at      timestamptz not null default clock_timestamp(),
	dns_us        integer,
	connect_us    integer,
	tls_us        integer,
	first_byte_us integer,
	total_us      integer,
	reused        boolean, -- whether the connection was
	protocol      text,
	response_headers jsonb,
	response_body bytea,
	response_truncated boolean not null default false,
	next_attempt_at timestamptz,
	trace_parent  text,
	xid           xid8 not null default pg_current_xact_id(),
	primary key (event_id, endpoint_id, number)
) partition by range (event_id);
create index attempts_endpoint on gateway.attempts (endpoint_id, event_id, number);

-- The line: every open delivery that holds no lease and is not held, by the time it is due. Apart from
-- gateway.deliveries, since a grant looks for the oldest due of an endpoint over all days. due_at is the
-- delivery's next_attempt_at, which finds the row again.
create table gateway.line (
	endpoint_id uuid not null,
	due_at      timestamptz not null,
	event_id    uuid not null,
	tenant_id   uuid not null,
	primary key (endpoint_id, due_at, event_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The right to have one POST in flight.
create table gateway.leases (
	event_id    uuid not null,
	endpoint_id uuid not null,
	tenant_id   uuid not null,
	process_id  uuid not null,
	number      integer not null, -- of the attempt
	try         smallint not null, -- its place in the schedule, should it be spent
	started_at  timestamptz not null,
	ends_at     timestamptz not null,
	primary key (event_id, endpoint_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index leases_process on gateway.leases (process_id);

create table gateway.processes (
	id              uuid primary key, -- new at each start; River's client id too
	host            text not null,
	pid             integer not null,
	version         text not null,
	roles           text[] not null,
	beat            bigint not null default 0, -- raised with each heartbeat; never a time
	started_at      timestamptz not null default clock_timestamp(),
	beat_at         timestamptz not null default clock_timestamp(),
	relay_pass_at   timestamptz, -- the last pass that ended well
	clock_offset_ms integer,
	draining        boolean not null default false,
	ended_at        timestamptz
) with (fillfactor = 50);

create table gateway.delivery_minutes (
	endpoint_id uuid not null,
	span        text not null check (span in ('minute', 'hour')),
	starts_at   timestamptz not null,
	tenant_id   uuid not null,
	attempts    integer not null default 0,
	outcomes    jsonb not null default '{}',
	classes     jsonb not null default '{}',
	total_us    integer[], -- histograms on a fixed logarithmic scale
	dns_us      integer[],
	connect_us  integer[],
	tls_us      integer[],
	first_byte_us integer[],
	primary key (endpoint_id, span, starts_at)
) with (fillfactor = 70);
create index delivery_minutes_tenant on gateway.delivery_minutes (tenant_id, span, starts_at);

create table gateway.replays (
	id           uuid primary key default gateway.uuid_v7(),
	tenant_id    uuid not null,
	endpoint_id  uuid,
	filter       jsonb not null,
	reroute      boolean not null default false,
	rate_per_second integer,
	state        text not null check (state in ('running', 'paused', 'cancelled', 'finished')),
	position     bytea, -- where the next batch begins
	total        bigint not null default 0,
	done         bigint not null default 0,
	skipped      bigint not null default 0,
	expired      bigint not null default 0,
	created_by   text,
	created_at   timestamptz not null default now(),
	updated_at   timestamptz not null default now(),
	ended_at     timestamptz
);
create index replays_tenant on gateway.replays (tenant_id, id);

-- What an operator looks at ------------------------------------------------------------------------

create table gateway.alerts (
	id              uuid primary key default gateway.uuid_v7(),
	name            text not null,
	key             text not null default '', -- what it is about
	tenant_id       uuid,
	detail          jsonb not null default '{}',
	raised_at       timestamptz not null default now(),
	last_seen_at    timestamptz not null default now(),
	clean_since     timestamptz,
	cleared_at      timestamptz,
	acknowledged_at timestamptz,
	acknowledged_by text
);
create unique index alerts_open on gateway.alerts (name, key) where cleared_at is null;

create table gateway.audit (
	id         uuid primary key default gateway.uuid_v7(),
	tenant_id  uuid, -- null: an operator's act
	actor      text not null,
	action     text not null,
	target     text not null,
	detail     jsonb not null default '{}',
	request_id text,
	at         timestamptz not null default now()
);
create index audit_tenant on gateway.audit (tenant_id, id);

-- Partitions ---------------------------------------------------------------------------------------

-- +goose StatementBegin
create function gateway.ensure_partitions(first date, days integer) returns integer
	language plpgsql set search_path = pg_catalog
as $$
-- Makes the day partitions of deliveries and attempts that are missing, from a day (UTC) on, and says how many.
-- A table is made apart and attached: that stops no reader or writer of the others.
declare
	parent text;
	child text;
	day date;
	made integer := 0;
begin
	perform pg_advisory_xact_lock(hashtext('gateway.ensure_partitions'));
	for i in 0 .. days - 1 loop
		day := first + i;
		foreach parent in array array['deliveries', 'attempts'] loop
			child := parent || '_' || to_char(day, 'YYYYMMDD');
			continue when to_regclass('gateway.' || child) is not null;
			execute format('create table gateway.%I (like gateway.%I including all) with (fillfactor = %s, autovacuum_vacuum_scale_factor = 0.05)',
				child, parent, case parent when 'deliveries' then 60 else 100 end);
			execute format('alter table gateway.%I attach partition gateway.%I for values from (%L) to (%L)', parent, child,
				gateway.uuid_floor(day::timestamp at time zone 'UTC'),
				gateway.uuid_floor((day + 1)::timestamp at time zone 'UTC'));
			made := made + 1;
		end loop;
	end loop;
	return made;
end
$$;
-- +goose StatementEnd

-- Yesterday's too: an event that was written before midnight may be fanned out after it.
select gateway.ensure_partitions((now() at time zone 'UTC')::date - 1, 9);

-- +goose Down
-- Everything but the table that the migrations are counted in, which must outlive this one.
-- +goose StatementBegin
do $$
declare
	thing text;
begin
	for thing in
		select c.oid::regclass from pg_class c
		where c.relnamespace = 'gateway'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
			and c.relname <> 'schema_versions'
	loop
		execute 'drop table ' || thing || ' cascade';
	end loop;
	for thing in select p.oid::regprocedure from pg_proc p where p.pronamespace = 'gateway'::regnamespace loop
		execute 'drop function ' || thing;
	end loop;
end
$$;
-- +goose StatementEnd
