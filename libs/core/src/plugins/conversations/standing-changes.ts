import type { AssistantMessage, Message, SystemMessage, ToolMessage } from '@toolloop/protocol';
import type { KeptTurn } from '../../contracts/conversation.js';

/**
 * Returns the steps of turns that were cut in which something was changed, whole: a provider wants
 * a step back as it was. Everything else of the turns goes. A change of which all directives are
 * cancelled was none.
 */
export function standingIn(
  turns: readonly KeptTurn[],
  cancelled: ReadonlySet<string>,
): readonly Message[] {
  return turns.flatMap(({ messages }) =>
    stepsIn(messages).flatMap((step) => standingStep(step, cancelled)),
  );
}

/** Told to the model before the words of the user whose earlier answer has given way. */
export const CHANGES_STAND: SystemMessage = {
  role: 'system',
  content:
    'The user has taken an earlier answer to the next message back. What it changed stands: the calls behind that message have been made, with these results. Do not make them again, unless a later message of the user asks for it.',
  labels: { returns: 'trusted', reads: 'public' },
};

const CANCELLED = JSON.stringify({
  status: 'cancelled',
  reason: 'The user took the answer back before this was done. Nothing was changed.',
});

/** The ids of the directives that the turns asked for. */
export function directivesIn(turns: readonly KeptTurn[]): readonly string[] {
  const results = turns.flatMap(({ messages }) =>
    messages.filter((message) => message.role === 'tool'),
  );
  return results.flatMap(({ change }) => change?.directiveIds ?? []);
}

/** An answer of the model that called tools, and their results. */
interface Step {
  readonly answer: AssistantMessage;
  readonly results: readonly ToolMessage[];
}

function stepsIn(messages: readonly Message[]): readonly Step[] {
  return messages.flatMap((answer, index) => {
    if (answer.role !== 'assistant' || !answer.toolCalls) return [];
    const ids = new Set(answer.toolCalls.map(({ toolCallId }) => toolCallId));
    const behind = messages.slice(index + 1, index + 1 + ids.size);
    return [
      {
        answer,
        results: behind
          .filter((message) => message.role === 'tool')
          .filter(({ toolCallId }) => ids.has(toolCallId)),
      },
    ];
  });
}

function standingStep(
  { answer, results }: Step,
  cancelled: ReadonlySet<string>,
): readonly Message[] {
  const told = results.map((result) => standingResult(result, cancelled));
  if (!told.some(({ change }) => change?.stands)) return [];
  const { entities: _entities, ...said } = answer;
  return [said, ...told];
}

function standingResult(
  { change, ...result }: ToolMessage,
  cancelled: ReadonlySet<string>,
): ToolMessage {
  if (!change) return result;
  const isGone = change.isLater && change.directiveIds?.every((id) => cancelled.has(id));
  if (!isGone) return { ...result, change: { ...change, stands: true } };
  const { hidden: _hidden, ...rest } = result;
  return { ...rest, content: CANCELLED };
}
