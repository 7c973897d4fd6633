import {
  KEPT_POLICY_VERSIONS,
  POLICY_POLL_MS,
  POLICY_TRUST_MS,
  type PolicyPage,
  type PolicyScope,
  type PolicySign,
  type PolicyState,
  type PolicyStop,
  PolicyStore,
  type PolicyVersion,
} from '@toolloop/core/stores';
import type { NamedStatement } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import { RowWatch } from '../database/row-watch.js';
import { isStorable, storableKey, storedJson } from './storable.js';

/** Keeps policies and stops in SQL, for all processes together. */
export class SqlPolicyStore extends PolicyStore {
  private readonly rows: RowWatch<PolicySign>;
  private looks = 0;

  constructor(private readonly database: Database) {
    super();
    this.rows = new RowWatch<PolicySign>(database, {
      channel: CHANGED,
      everyMs: POLICY_POLL_MS,
      what: 'Policies',
      look: () => this.look(),
    });
  }

  /** One statement. Of two who add the same number, the primary key lets one. */
  override async add(version: PolicyVersion): Promise<boolean> {
    const { number } = version;
    if (number > LAST_NUMBER) return false;
    const kept = await this.database.query(
      `with last as (
         select coalesce(max(number), 0) as number from toolloop.policies where scope = $1
       ), next as (
         ${NEXT} where (select number from last) = $2 - 1 returning revision
       ), over as (
         delete from toolloop.policies where scope = $1 and number <= $2 - ${KEPT_POLICY_VERSIONS} and exists (select from next)
       ), kept as (
         insert into toolloop.policies (scope, number, revision, version) select $1, $2, revision, $3 from next
         on conflict do nothing returning revision
       )
       select revision, ${TOLD} from kept`,
      [scopeKey(version), number, storedJson(version, 'version')],
    );
    return kept.length > 0;
  }

  override async find(scope: PolicyScope, number: number): Promise<PolicyVersion | undefined> {
    if (!isScope(scope) || number > LAST_NUMBER) return undefined;
    const [row] = await this.database.query<VersionRow>(
      'select version from toolloop.policies where scope = $1 and number = $2',
      [scopeKey(scope), number],
    );
    return row?.version;
  }

  override async list({ tenant, limit, before }: PolicyPage): Promise<readonly PolicyVersion[]> {
    const scope = tenant === undefined ? {} : { tenant };
    if (!isScope(scope)) return [];
    const rows = await this.database.query<VersionRow>(
      'select version from toolloop.policies where scope = $1 and ($2::int is null or number < $2) order by number desc limit $3',
      [scopeKey(scope), before === undefined ? null : Math.min(before, LAST_NUMBER), limit],
    );
    return rows.map(({ version }) => version);
  }

  override async stop(stop: PolicyStop): Promise<void> {
    await this.database.query(
      `with next as (
         ${NEXT} returning revision
       ), kept as (
         insert into toolloop.policy_stops (stop_id, revision, stop) select $1, revision, $2 from next
         on conflict do nothing returning revision
       )
       select revision, ${TOLD} from kept`,
      [storableKey(stop.stopId, 'id of the stop'), storedJson(stop, 'stop')],
    );
  }

  override async release(stopId: string): Promise<boolean> {
    if (!isStorable(stopId)) return false;
    const released = await this.database.query(
      `with released as (
         delete from toolloop.policy_stops where stop_id = $1 returning stop_id
       ), next as (
         ${NEXT} where exists (select from released) returning revision
       )
       select revision, ${TOLD} from next`,
      [stopId],
    );
    return released.length > 0;
  }

  /** One statement, so that all of it is of one moment. */
  override async read(since: number): Promise<PolicyState> {
    const [row] = await this.database.query<PolicyState>(
      `select revision::int,
         (select coalesce(json_agg(version order by scope), '[]') from (
            select distinct on (scope) scope, number, revision, version from toolloop.policies
            where scope in (select scope from toolloop.policies where revision > $1) order by scope, number desc
          ) as newest) as versions,
         (select coalesce(json_agg(stop order by revision), '[]') from toolloop.policy_stops) as stops
       from toolloop.policy_state`,
      [since],
    );
    return row ?? { revision: 0, versions: [], stops: [] };
  }

  override watch(told: (sign: PolicySign) => void): Promise<() => Promise<void>> {
    const end = this.rows.add(STATE, told);
    this.database.outside(() => {
      void this.rows.lookAgain([STATE]);
      // Between the first look and the first notification there may be a change of which nothing
      // was heard.
      void this.rows.listen().then(() => this.rows.lookAgain([STATE]));
    });
    return Promise.resolve(() => Promise.resolve(end()));
  }

  /** A sign counts from when it was asked for, and is a new one each time, so that each is told. */
  private async look(): Promise<readonly (readonly [string, PolicySign])[]> {
    if (this.looks >= MOST_LOOKS) return [];
    const askedAt = performance.now();
    this.looks += 1;
    try {
      const [row] = await this.database.query<Pick<PolicySign, 'revision'>>(REVISION);
      const forMs = POLICY_TRUST_MS - (performance.now() - askedAt);
      return [[STATE, { revision: row?.revision ?? 0, forMs }]];
    } finally {
      this.looks -= 1;
    }
  }
}

const CHANGED = 'toolloop_policies';
/** The id of the one row that is watched, which has the revision. */
const STATE = 'state';
/**
 * Looks that may be under way at once. A database that hangs is asked again, in case the next
 * connection answers, but not without end.
 */
const MOST_LOOKS = 2;

/** The last number that fits into its column. A client may name any. */
const LAST_NUMBER = 2_147_483_647;

/** Asked twice a second by every process. */
const REVISION: NamedStatement = {
  name: 'toolloop_policy_revision',
  text: 'select revision::int from toolloop.policy_state',
};
/** Takes the next revision, and tells it after the commit. */
const NEXT = `update toolloop.policy_state set revision = revision + 1`;
const TOLD = `pg_notify('${CHANGED}', '${STATE}')::text as told`;

interface VersionRow {
  readonly version: PolicyVersion;
}

/** JSON keeps the scope of all tenants apart from that of any. */
function scopeKey({ tenant }: PolicyScope): string {
  return JSON.stringify(tenant === undefined ? null : storableKey(tenant, 'tenant'));
}

function isScope({ tenant }: PolicyScope): boolean {
  return tenant === undefined || isStorable(tenant);
}
