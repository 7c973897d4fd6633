import { Toolset } from '../../catalog/toolset.js';
import type { RunPlan } from '../../run/run-plan.js';

/** A failure to read the account of a session. */
interface UnreadAccount {
  readonly cause: unknown;
}

/** Brings the account of a call up to date. Undefined at once where that is not needed. */
export function accountRead(
  { account }: Pick<RunPlan, 'account'>,
  toolset: Toolset,
): Promise<UnreadAccount | undefined> | undefined {
  return account?.refresh(toolset)?.then(
    () => undefined,
    (cause: unknown) => ({ cause }),
  );
}
