import { type JsonValue, ToolError } from '@toolloop/protocol';
import type { CallContextFactory } from '../../call/call-context.js';
import { advance, type ReadCall } from '../../call/call.js';
import { untilAborted } from '../../contracts/interruption.js';
import { CallPending } from '../../call/outcome.js';
import { readArguments } from '../../call/read-arguments.js';
import type { ToolResolution } from '../../call/resolve-tool.js';
import { isUsable, type PendingOf } from '../../contracts/pending.js';
import type { InformationFlow } from '../../contracts/policy.js';
import type { Question } from '../../contracts/tool-call.js';
import type { SchemaValidators } from '../../schema/validators.js';
import { copyOf } from '../approvals/shown-preview.js';
import { TrustedText } from '../flow/trusted-text.js';
import { isExpired } from '../inbox/pending.service.js';
import { AskedQuestions, NOT_IN_TIME } from './asked-questions.js';

/**
 * Asks what a tool that changes things wants to know before its call is authorised. The answers
 * take the place of arguments, so that policy, an approver, the journal and a directive have them
 * in what they hold already. Once all of them are used they stand, whatever the tool would ask by
 * then: its effect may have changed that.
 */
export class AskedBeforehand {
  constructor(private readonly parts: BeforehandParts) {}

  /**
   * Returns the call with the answers among its arguments.
   *
   * @throws {CallPending} Where the run waits for them.
   * @throws {ToolError} Where there will be none.
   * @throws {CallFailure} Where the arguments do not fit with them.
   */
  async complete(call: ReadCall): Promise<ReadCall> {
    const { request, scope } = call;
    // a directive has the answers in its arguments
    if (request.refusal || scope.performing) return call;
    if (request.isDeferred) throw new CallPending();
    const { questions, resolution } = this.parts;
    const before = await questions.askedFor(call, BEFOREHAND);
    if (before.some(({ usedAt }) => usedAt !== undefined)) return this.withAnswers(call, before);
    for (let hasWaited = false; ; hasWaited = true) {
      const asked: PendingOf<'question'>[] = [];
      for (const question of await this.questionsOf(call))
        asked.push(await questions.recordOf(question, call, BEFOREHAND + question.key));
      const open = asked.filter(({ answer }) => !answer);
      await this.assertAnswerable(asked, call);
      if (open.length > 0) {
        await this.answered(open, call);
        continue;
      }
      const complete = await this.withAnswers(call, asked);
      return hasWaited ? resolution.permit(complete) : complete; // which may have changed meanwhile
    }
  }

  /**
   * Throws a `ToolError` where one of them will have no answer, and takes back the others: the call
   * is not made.
   */
  private async assertAnswerable(
    asked: readonly PendingOf<'question'>[],
    call: ReadCall,
  ): Promise<void> {
    const { questions } = this.parts;
    const lost = asked.find(isLost);
    if (!lost) return;
    await questions.leave(asked.filter((one) => !one.answer && !isExpired(one)));
    if (lost.answer) await questions.take(lost, lost.answer, call);
    throw new ToolError(NOT_IN_TIME);
  }

  /** Waits for all of them; where the run is suspended, each is shown before. */
  private async answered(open: readonly PendingOf<'question'>[], call: ReadCall): Promise<void> {
    let pause: CallPending | undefined;
    for (const record of open)
      await this.parts.questions.answered(record, call).catch((error: unknown) => {
        if (!(error instanceof CallPending)) throw error;
        pause = error;
      });
    if (pause) throw pause;
  }

  /** Within the tool's time limit, like all code of the application. */
  private async questionsOf(call: ReadCall): Promise<readonly Question[]> {
    const { tool } = call;
    const { context, close } = this.parts.contexts.open(call);
    try {
      const asking = this.parts.contexts.run(
        context,
        async () => tool.questions?.(await copyOf(call), context) ?? [],
      );
      const questions = await untilAborted(asking, context.signal);
      for (const [index, { key }] of questions.entries()) {
        const isKnown = Object.hasOwn(tool.input.schema.properties ?? {}, key);
        if (isKnown && questions.findIndex((other) => other.key === key) === index) continue;
        const problem = isKnown
          ? `ask twice for "${key}"`
          : `ask for "${key}", and the tool has no such argument: the answer would be lost`;
        throw new Error(`The questions of ${tool.spec.declaredId} ${problem}.`);
      }
      return questions;
    } finally {
      close();
    }
  }

  private async withAnswers(
    call: ReadCall,
    asked: readonly PendingOf<'question'>[],
  ): Promise<ReadCall> {
    const given: [name: string, value: JsonValue][] = [];
    for (const record of asked)
      if (record.answer)
        given.push([
          record.rule.slice(BEFOREHAND.length),
          await this.parts.questions.take(record, record.answer, call),
        ]);
    if (given.length === 0) return call;
    const args = { ...call.input.args, ...Object.fromEntries(given) };
    const { outside } = call.input;
    const input = {
      ...(await readArguments(this.parts.validators, call, JSON.stringify(args))),
      ...(outside && { outside }),
    };
    // The words of a person whom untrusted text may have had asked prove nothing.
    const said = asked.flatMap(({ request, answer }) =>
      request.isTainted ? [] : [JSON.stringify(answer?.value ?? null)],
    );
    return advance(call, {
      input,
      scope: { ...call.scope, flow: saidAsWell(call.scope.flow, new TrustedText(said)) },
    });
  }
}

/**
 * The beginning of the rule of what is asked before a call; behind it stands the name of the
 * argument.
 */
const BEFOREHAND = 'questions: ';

/** The services of {@link AskedBeforehand}. */
export interface BeforehandParts {
  readonly questions: AskedQuestions;
  readonly contexts: CallContextFactory;
  readonly validators: SchemaValidators;
  readonly resolution: ToolResolution;
}

function isLost(question: PendingOf<'question'>): boolean {
  return question.answer ? !isUsable(question.answer) : isExpired(question);
}

/** Returns the flow of a call whose person said more than its run has read. */
export function saidAsWell(flow: InformationFlow, said: TrustedText): InformationFlow {
  return {
    integrity: flow.integrity,
    confidentiality: flow.confidentiality,
    outsideBits: flow.outsideBits,
    mayCommit: flow.mayCommit,
    isCommitted: (tool, call) => flow.isCommitted(tool, call),
    tracedWords: (isSuch) =>
      new Set([...said.wordsThat(isSuch), ...(flow.tracedWords?.(isSuch) ?? [])]),
    isSaid: (value) => flow.isSaid(value),
    ...(flow.sources && { sources: flow.sources }),
    ...(flow.endorsing && {
      endorsing: (isEndorsed) => saidAsWell(flow.endorsing?.(isEndorsed) ?? flow, said),
    }),
  };
}
