import { Toolset } from '../../catalog/toolset.js';
import type { RunPlan } from '../../run/run-plan.js';

/** Brings the account of a call up to date. Never rejects. */
export async function accountRead(
  { account }: Pick<RunPlan, 'account'>,
  toolset: Toolset,
): Promise<UnreadAccount | undefined> {
  try {
    await account?.refresh(toolset);
    return undefined;
  } catch (cause) {
    return { cause };
  }
}

/** A failure to read the account of a session. */
interface UnreadAccount {
  readonly cause: unknown;
}
