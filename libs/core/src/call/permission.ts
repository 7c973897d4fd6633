import type { Decision } from '@toolloop/protocol';
import { isRefusal, type Tool, type ToolWord } from '../contracts/tool.js';
import { Logger } from '../findings/logger.js';
import { decide, subjectOf } from '../policy/decide.js';
import type { ExecutionScope } from './call.js';
import { Interruption, linkSignal, untilAborted } from '../contracts/interruption.js';

/**
 * Policy's word on a tool and, where that does not deny it, the word of the tool's own `canCall`.
 * Throws the interruption of a run that ends meanwhile.
 */
export async function permissionFor(tool: Tool, scope: ExecutionScope): Promise<Decision> {
  const decision = decide(scope.policies, subjectOf(tool, scope.actor));
  if (decision.kind === 'deny' || !tool.canCall) return decision;
  return withWord(await wordOf(tool, scope), decision, 'canCall');
}

/** The run whose actor a tool's own hook is asked about, and the limits on the answer. */
export type HookScope = Pick<ExecutionScope, 'run' | 'limits'> & {
  readonly signal: AbortSignal | undefined;
};

const logger = new Logger('ToolPolicy');

/**
 * The decision on a call once its tool was asked, too: a refusal takes the place of policy's yes.
 */
export function withWord(
  word: ToolWord,
  decision: Decision,
  asked: 'canCall' | 'preflight',
): Decision {
  if (word === true) return decision;
  const { policyVersion, shadow } = decision;
  const {
    rule,
    reason,
    version = policyVersion,
  } = word || { rule: asked, reason: 'The tool does not let this actor call it.' };
  return { kind: 'deny', rule, reason, policyVersion: version, ...(shadow && { shadow }) };
}

/**
 * Those of the tools whose own `canCall` lets the run's actor in; all are asked at once. Throws as
 * {@link permissionFor} does.
 */
export async function callable(tools: readonly Tool[], scope: HookScope): Promise<readonly Tool[]> {
  const answers = await canCallOf(tools, scope);
  return tools.filter((_, index) => answers[index]);
}

/** The answers of the tools' own `canCall`, in their order. */
export function canCallOf(
  tools: readonly AskedTool[],
  scope: HookScope,
): Promise<readonly boolean[]> {
  return Promise.all(tools.map(async (tool) => (await wordOf(tool, scope)) === true));
}

type AskedTool = Pick<Tool, 'spec' | 'canCall' | 'timeoutMs'>;

/**
 * Asks the tool's own `canCall`. An exception denies, and so does silence until the tool's time is
 * up.
 */
async function wordOf(
  { spec, canCall, timeoutMs }: AskedTool,
  { run, limits, signal }: HookScope,
): Promise<ToolWord> {
  if (!canCall) return true;
  const ms = timeoutMs ?? limits.toolCallMs;
  const link = linkSignal(signal, { ms, message: `It did not answer within ${ms} ms.` });
  try {
    // so that what it throws at once is a rejection like any
    const asking = Promise.resolve(run).then(canCall);
    const answer: unknown = await untilAborted<unknown>(asking, link.signal);
    return isRefusal(answer) ? answer : answer === true;
  } catch (error) {
    if (signal?.aborted) throw Interruption.from(signal);
    logger.error(
      `The canCall of ${spec.declaredId} failed, so the tool is denied (run ${run.runId}).`,
      error,
    );
    return false;
  } finally {
    link.release();
  }
}
