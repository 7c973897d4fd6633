import { type CallHooks, reworded } from '../plugin/call-hooks.js';
import type { FailureWords, ResultChange } from '../plugin/call-points.js';
import { hadEffect } from '../plugins/sub-runs/changed-records.js';
import { cut } from '../plugins/pages/result-pages.js';
import { asFromOutside } from '../plugins/values/hide-values.js';
import { answerLost } from './call-failure.js';
import type { Call, ReadCall } from './call.js';
import type { ToolOutcome } from './outcome.js';
import { failed } from './outcomes.js';

/**
 * Returns the hook that changes what is read of a call: that of the plugins which its tool
 * concerns, or, of a part of an earlier result, those which the tool of that concerns.
 */
export function resultHookOf({ hooks, shownTool, scope }: Call): ResultHook | undefined {
  const { result } = shownTool ? scope.plugins.hooksFor(shownTool) : hooks;
  return (
    result && ((call, outcome) => result(shownTool ? { ...call, tool: shownTool } : call, outcome))
  );
}

/**
 * Returns an outcome as the plugins have it read. They are shown the texts that are hidden from the
 * model, so that nothing passes them by.
 *
 * @throws {Error} if one of them failed, so that nothing of the result may be read
 */
export async function changedByPlugins(
  call: Call,
  outcome: ToolOutcome,
  ask: ResultHook,
): Promise<ToolOutcome> {
  if (outcome.isPending) return outcome;
  try {
    const revealed = revealedIn(call, outcome);
    const change = await ask(call, { ...outcome, content: revealed });
    if (!change) return outcome;
    return withChange(call, outcome, { ...change, isRevealed: revealed !== outcome.content });
  } catch (error) {
    throw isRead(call) && hadEffect(call) && !outcome.record.error ? answerLost(error) : error;
  }
}

/** The compiled hook that changes what is read of an outcome. */
export type ResultHook = NonNullable<CallHooks['result']>;

function revealedIn({ scope }: Call, { content }: ToolOutcome): ToolOutcome['content'] {
  return typeof content === 'string' ? (scope.values?.revealIn(content) ?? content) : content;
}

/**
 * The entities of a result that was changed are not told: their names would tell of it. Changed
 * content may hold any text of the result, also one that was hidden from the model, so it is from
 * outside unless all that the tool returns is the application's.
 */
function withChange(
  call: Call,
  { hinted: _hinted, ...made }: ToolOutcome,
  { content, result, error, isFromOutside, isRevealed }: RevealedChange,
): ToolOutcome {
  const outcome = error ? withWords(call, made, error) : made;
  const isTrusted = !isRevealed && outcome.tool?.spec.labels.returns === 'trusted';
  const isOfOutside = isFromOutside === true || (content !== undefined && !isTrusted);
  const changed: ToolOutcome = {
    ...outcome,
    ...(content !== undefined && { content: withinBudget(call, content) }),
    ...(result !== undefined && { record: { ...outcome.record, result } }),
  };
  return isOfOutside ? asFromOutside(call, changed) : changed;
}

function withinBudget(
  { limits, run }: Call,
  content: ToolOutcome['content'],
): ToolOutcome['content'] {
  const { resultBytes } = limits ?? run.limits;
  return typeof content === 'string' ? cut(content, resultBytes) : content;
}

/** A change, and whether its plugin was shown what is hidden from the model. */
type RevealedChange = ResultChange & { readonly isRevealed: boolean };

/** Returns the outcome of a call that failed in other words, which the model reads as well. */
function withWords(call: Call, outcome: ToolOutcome, words: FailureWords): ToolOutcome {
  if (!outcome.record.error) return outcome;
  const error = reworded(outcome.record.error, words);
  const { content, labels } = failed(call, error);
  return {
    ...outcome,
    content,
    ...(labels && { labels }),
    record: { ...outcome.record, error },
  };
}

function isRead(call: Call): call is ReadCall {
  return call.tool !== undefined && call.input !== undefined;
}
