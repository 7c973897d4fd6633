import { withdrawal, type ApprovalBinding } from '@toolloop/core';
import type { Database } from '../database/database.js';
import { storedJson } from './storable.js';

/**
 * Takes back what these runs asked for and nobody has answered, in the transaction that ends them: a process may be killed after it. What is being answered at this
 * moment is left to whoever answers, since an answer waits for the run.
 */
export async function withdrawApprovals(database: Database, runs: readonly Pick<ApprovalBinding, 'tenant' | 'runId'>[]): Promise<void> {
  if (runs.length === 0) return;
  await database.query(
    `with asked as (
       select approval_id from toolloop.approvals
       where (tenant, run_id) in (select * from unnest($1::text[], $2::text[])) and decision is null for update skip locked
     )
     update toolloop.approvals set decision = 'deny', answer = $3 where approval_id in (select approval_id from asked)`,
    [runs.map(({ tenant }) => tenant), runs.map(({ runId }) => runId), storedJson(withdrawal(), 'answer')],
  );
}
