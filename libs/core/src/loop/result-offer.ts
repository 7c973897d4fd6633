import { selects } from '../catalog/tool.selection.js';
import type { Toolset } from '../catalog/toolset.js';
import { RESULT_READER, resultReader } from '../execution/result-reader.js';
import { ResultPages } from '../execution/result.pages.js';
import { isPermitted } from '../policy/is-permitted.js';
import type { Message } from '../protocol/message.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { ToolSpec } from '../protocol/tool.js';
import type { SavedRun } from './from-suspended-run.js';
import type { RunPlan } from './run.plan.js';
import type { Authority } from './run.roles.js';
import type { ResumedRun } from './suspended.runs.js';

/** The tools of a run, and which of them were injected. */
export interface RunTools {
  readonly toolset: Toolset;
  readonly injected: readonly ToolSpec[];
}

/**
 * Where a run keeps what was cut: what it kept before it waited, or nothing yet. Undefined where no tool may appear in it, or not the one that reads: then
 * the model is shown no way to the rest.
 */
export function pagesFor({ injection, execution }: RunPlan, history: readonly Message[], resumed?: ResumedRun): ResultPages | undefined {
  const isKeptOut = injection.exclude.some((selector) => selects(selector, { tool: RESULT_READER }));
  if (isKeptOut || injection.strategies.length === 0) return undefined;
  if (resumed?.remains?.pages) return resumed.remains.pages;
  const results = history.filter(({ role }) => role === 'tool').length;
  const records = resumed ? recordsOf(resumed.saved) : { ended: [], waiting: [] };
  const hasHandles = [...records.ended, ...records.waiting].some(({ truncated }) => truncated);
  return new ResultPages(execution.limits.keptResultBytes, { results: results + records.waiting.length, hasHandles });
}

function recordsOf({ state, pending }: SavedRun): Readonly<Record<'ended' | 'waiting', readonly ToolInvocationRecord[]>> {
  return { ended: state.records, waiting: pending?.outcomes.map(({ record }) => record) ?? [] };
}

/** The run's tools with the one that reads on, once there is something to read. It answers a limit of ours, so the cap of injected tools does not hold. */
export function withReader(tools: RunTools, pages: ResultPages | undefined, authority: Authority): RunTools {
  if (!pages?.hasHandles || tools.toolset.find(RESULT_READER.spec.id)) return tools;
  if (tools.toolset.keepsAway(RESULT_READER.spec) || !isPermitted(RESULT_READER, authority)) return tools;
  const { toolset, added } = tools.toolset.with([resultReader(pages)]);
  return { toolset, injected: [...tools.injected, ...added] };
}
