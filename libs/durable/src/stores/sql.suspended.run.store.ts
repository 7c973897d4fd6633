import { SuspendedRunStore, type SuspendedRun } from '@toolloop/core';
import type { Database } from '../database/database.js';
import { isStorable, storableKey, storedJson } from './storable.js';

interface RunRow {
  readonly run: SuspendedRun;
}

/** Keeps waiting runs in SQL, so that another process, or a later one, goes on with them. */
export class SqlSuspendedRunStore extends SuspendedRunStore {
  constructor(private readonly database: Database) {
    super();
  }

  override async save(run: SuspendedRun): Promise<void> {
    await this.database.query(
      `insert into toolloop.suspended_runs (run_id, tenant, run) values ($1, $2, $3)
       on conflict (run_id) do update set tenant = excluded.tenant, run = excluded.run, created_at = now()`,
      [storableKey(run.runId, 'id of the run'), storableKey(run.tenant, 'tenant'), storedJson(run, 'run')],
    );
  }

  override async find(runId: string): Promise<SuspendedRun | undefined> {
    return this.first('select run from toolloop.suspended_runs where run_id = $1', runId);
  }

  override async take(runId: string): Promise<SuspendedRun | undefined> {
    return this.first('delete from toolloop.suspended_runs where run_id = $1 returning run', runId);
  }

  private async first(text: string, runId: string): Promise<SuspendedRun | undefined> {
    if (!isStorable(runId)) return undefined;
    const [row] = await this.database.query<RunRow>(text, [runId]);
    return row?.run;
  }
}
