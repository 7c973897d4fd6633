import { type JsonValue, ToolError, type ToolFailure, visible } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import {
  isUsable,
  type Pending,
  type PendingAnswer,
  type PendingOf,
} from '../contracts/pending.js';
import type { InformationFlow } from '../contracts/policy.js';
import type { Question } from '../contracts/tool-call.js';
import type { ClientSide, Tool } from '../contracts/tool.js';
import { KeyedMutex } from '../pending/keyed-mutex.js';
import { isExpired, withdraw } from '../pending/pending.service.js';
import { TrustedText } from '../policy/trusted-text.js';
import { subjectOf } from '../policy/policy-engine.js';
import { answeredBy } from '../policy/rules.js';
import type { SchemaValidators } from '../schema/validators.js';
import {
  Asking,
  bindingOf,
  callIn,
  expiryOf,
  idFor,
  timesOf,
  unaskableReason,
  waitingCallOf,
} from './approvals.js';
import { type CallContextFactory, idempotencyKeyOf } from './call-context.js';
import { CallFailure, untilAborted } from './call-failure.js';
import {
  advance,
  type AuthorisedCall,
  CallPending,
  CallWaitsElsewhere,
  type ReadCall,
} from './call.js';
import { shownArguments } from './describe.js';
import { copyOf } from './preview.js';
import { readArguments } from './read-arguments.js';
import type { ToolResolution } from './resolve-tool.js';

/**
 * Has clients make calls, and takes their results. A call is sent out once it is let in, and its
 * result is used where a method would have been called.
 */
export class ClientCalls extends Asking {
  /**
   * Puts the result of the client in the place of the tool's method; false where it came while the
   * run waited: then the call has to be let in anew.
   *
   * @throws {CallFailure} `timeout` or `unknown_outcome` where none came in time,
   *   `execution_failed` where the client made no call, `aborted` where it was withdrawn.
   * @throws {CallPending} Where the run waits for the client.
   */
  async answer(call: AuthorisedCall, side: ClientSide): Promise<boolean> {
    const { scope, request, charge } = call;
    if (request.isDeferred) throw new CallPending();
    if (unaskableReason(scope) !== undefined) throw CallFailure.of('execution_failed', UNASKABLE);
    const record = await this.ask(call, side).catch((error: unknown) => {
      if (charge && error instanceof CallWaitsElsewhere) scope.spending.takeBack(charge);
      throw error;
    });
    if (record.answer) {
      await this.take(record, record.answer, call);
      return true;
    }
    scope.approvals.letIn(request.call.toolCallId);
    if (isExpired(record)) throw new CallFailure(expired(call.tool));
    if (charge) scope.spending.takeBack(charge); // it is counted when it has its result
    if (!(await this.answered(record, call))) throw new CallFailure(expired(call.tool));
    return false;
  }

  /**
   * Asks once. What a call changes is asked for by its idempotency key, so that a repeated request
   * waits for the same answer; of a read, each run asks for its own.
   */
  private ask(
    call: AuthorisedCall,
    { resultSchema, expiresAfterMs }: ClientSide,
  ): Promise<PendingOf<'client'>> {
    const { tool, input, decision } = call;
    const { effect } = tool.spec;
    const binding = bindingOf(call, { policyVersion: decision?.policyVersion ?? '' });
    const {
      policyVersion: _version,
      toolCallId: _call,
      runId: _run,
      subRunId: _sub,
      ...what
    } = binding;
    const asked =
      effect === 'read_only'
        ? { binding: { ...binding, policyVersion: '' } }
        : { what, key: idempotencyKeyOf(call) };
    const idAfter = (before?: string): string =>
      idFor('cli', {
        ...asked,
        step: call.request.step,
        ...(before !== undefined && { after: before }),
      });
    return this.once('client', idAfter, async (id) => {
      await this.assertAskedFirst(call, binding);
      const times = timesOf(expiresAfterMs);
      return this.keep(call, {
        id,
        kind: 'client',
        request: {
          pendingId: id,
          ...waitingCallOf(call),
          effect,
          args: shownArguments(input.args, tool.input.hidden),
          ...(resultSchema && { resultSchema }),
          expiresAt: times.expiresAt,
        },
        binding,
        admitted: [],
        rule: 'client',
        ...(resultSchema && { schema: resultSchema }),
        ...times,
      });
    });
  }

  private async take(
    record: PendingOf<'client'>,
    answer: PendingAnswer,
    call: AuthorisedCall,
  ): Promise<void> {
    // The answer is this call's alone, and the journal keeps what it changes from counting twice.
    if (record.usedAt === undefined) {
      await this.tell(record, answer, call);
      await this.store.use(record.id);
    }
    const { decision, reason, value } = answer;
    if (decision === 'withdraw')
      throw CallFailure.of('aborted', worded('The actor of the run withdrew this call.', reason));
    if (decision !== 'answer')
      throw CallFailure.of(
        'execution_failed',
        worded('The client did not make this call.', reason),
      );
    advance(call, { tool: { ...call.tool, invoke: () => value } });
  }
}

const UNASKABLE =
  'The call was not made: it is made by a client, and this run asks no one. Answer without it.';

function worded(what: string, reason: string | undefined): string {
  return reason === undefined ? what : `${what} It said: ${reason}`;
}

/** A client that was asked to change something may have done so and not said it. */
function expired({ spec }: Tool): ToolFailure {
  if (spec.effect === 'read_only')
    return {
      code: 'timeout',
      safeMessage: 'The client gave no result in time. Answer without it, or try again later.',
      retryable: true,
    };
  return {
    code: 'unknown_outcome',
    safeMessage:
      'The client gave no result in time. It is unknown whether it made the call. Do not repeat it; check first.',
  };
}

const MOST_OPEN = 5;
/** More than a run asks. */
const MOST_OF_A_RUN = 1_000;

/**
 * Asks people what calls want to know while they run. A question ends the attempt of its call; when
 * the answer is there, the call is made again and finds it.
 */
export class AskedQuestions extends Asking {
  /** The questions of a run are counted one after the other. */
  private readonly turns = new KeyedMutex();

  /**
   * Returns the answer to a question.
   *
   * @throws {CallPending} Where there is none yet.
   * @throws {ToolError} Where there will be none, and for a question that cannot be asked.
   */
  async ask(question: Question, call: AuthorisedCall): Promise<JsonValue> {
    const { spec } = call.tool;
    if (spec.effect !== 'read_only')
      throw new Error(
        `${spec.declaredId} changes things, so its method may not ask. Declare \`questions: (input) => [{ key, question, schema }]\` beside its effect: they are asked before the call, and the answers are its arguments.`,
      );
    const record = await this.recordOf(question, call, 'question');
    const { answer } = record;
    if (answer) return this.take(record, answer, call);
    if (isExpired(record)) throw new ToolError(NOT_IN_TIME);
    // what is asked at once is kept before the attempt ends, so that people see all of it
    await this.inTurn(call, () => Promise.resolve());
    const asking = new CallPending('question', undefined, undefined, record);
    advance(call, { asking });
    throw asking;
  }

  /**
   * Keeps a question once, or finds it with its answer. People other than those who were asked have
   * not answered it: it is asked anew where the policy names others.
   *
   * @throws {ToolError} For a question that cannot be asked.
   */
  async recordOf(question: Question, call: ReadCall, rule: string): Promise<PendingOf<'question'>> {
    const problem =
      unaskableReason(call.scope) === undefined
        ? questionProblem(question)
        : 'No one can be asked in this run.';
    if (problem !== undefined) throw new ToolError(problem);
    return this.inTurn(call, () => this.record(question, call, rule));
  }

  private inTurn<Result>(
    { scope: { run } }: ReadCall,
    work: () => Promise<Result>,
  ): Promise<Result> {
    return this.turns.run(run.path?.[0] ?? run.runId, work);
  }

  private record(
    { key, question, schema, askedBy = 'tool' }: Question,
    call: ReadCall,
    rule: string,
  ): Promise<PendingOf<'question'>> {
    const { tool, scope, request } = call;
    const binding = bindingOf(call, { policyVersion: '' });
    const admitted = answeredBy(scope.policies, subjectOf(tool, scope.actor));
    const asked = {
      binding,
      step: request.step,
      key,
      schema,
      ...(admitted.length > 0 && { admitted }),
    };
    const idAfter = (before?: string): string =>
      idFor('qst', { ...asked, ...(before !== undefined && { after: before }) });
    return this.once('question', idAfter, async (id) => {
      await this.assertRoom(binding);
      const times = timesOf(expiryOf(admitted));
      const isTainted = scope.flow.integrity !== 'trusted' || !tool.origin.trusted;
      const shown = {
        questionId: id,
        key,
        ...waitingCallOf(call),
        question,
        schema,
        askedBy,
        isTainted,
        expiresAt: times.expiresAt,
      };
      return this.keep(call, {
        id,
        kind: 'question',
        request: shown,
        binding,
        admitted,
        rule,
        schema,
        ...times,
      });
    });
  }

  private async assertRoom({ tenant, runId }: PendingOf<'question'>['binding']): Promise<void> {
    const waiting = await this.store.list({ tenant, runId, pending: true, limit: MOST_OF_A_RUN });
    const open = waiting.filter((record) => record.kind === 'question' && !isExpired(record));
    if (open.length >= MOST_OPEN)
      throw new ToolError(
        `${MOST_OPEN} questions of this run wait for answers already; ask no more.`,
      );
  }

  /** Finds what was asked under such rules for this very call, the oldest first. */
  async askedFor(call: ReadCall, rules: string): Promise<readonly PendingOf<'question'>[]> {
    const binding = bindingOf(call, { policyVersion: '' });
    const { tenant, runId } = binding;
    const all = await this.store.list({ tenant, runId, limit: MOST_OF_A_RUN });
    const isOfCall = ({ binding: other, request, rule }: Pending): boolean =>
      rule.startsWith(rules) &&
      request.step === call.request.step &&
      callIn(other) === callIn(binding);
    return all.flatMap((one) => (one.kind === 'question' && isOfCall(one) ? [one] : []));
  }

  /**
   * Tells the answer, once, and returns its value.
   *
   * @throws {ToolError} Where there is none.
   */
  async take(
    record: PendingOf<'question'>,
    answer: PendingAnswer,
    call: ReadCall,
  ): Promise<JsonValue> {
    if (record.usedAt === undefined) {
      await this.tell(record, answer, call);
      await this.store.use(record.id);
    }
    if (answer.decision === 'answer') return answer.value ?? null;
    throw new ToolError(worded('The person was asked and gave no answer.', answer.reason));
  }

  /** Withdraws questions of a call that will not be made. */
  async leave(open: readonly PendingOf<'question'>[]): Promise<void> {
    for (const { id } of open) await withdraw(this.store, id);
  }
}

const NOT_IN_TIME = 'The question was not answered in time.';

/** The services of {@link AskedBeforehand}. */
export interface BeforehandParts {
  readonly questions: AskedQuestions;
  readonly contexts: CallContextFactory;
  readonly validators: SchemaValidators;
  readonly resolution: ToolResolution;
}

/**
 * The beginning of the rule of what is asked before a call; behind it stands the name of the
 * argument.
 */
const BEFOREHAND = 'questions: ';

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

function isLost(question: PendingOf<'question'>): boolean {
  return question.answer ? !isUsable(question.answer) : isExpired(question);
}

function saidAsWell(flow: InformationFlow, said: TrustedText): InformationFlow {
  return {
    integrity: flow.integrity,
    confidentiality: flow.confidentiality,
    outsideBits: flow.outsideBits,
    isRequested: (tool, call) => flow.isRequested(tool, call),
    mayCommit: flow.mayCommit,
    isCommitted: (tool, call) => flow.isCommitted(tool, call),
    isTraced: (value) => flow.isTraced(value) || said.has(value),
    isSaid: (value) => flow.isSaid(value),
    ...(flow.sources && { sources: flow.sources }),
    ...(flow.endorsing && {
      endorsing: (isEndorsed) => saidAsWell(flow.endorsing?.(isEndorsed) ?? flow, said),
    }),
  };
}

const SCALARS = new Set<unknown>(['string', 'number', 'integer', 'boolean']);
const MOST_FIELDS = 8;
const MOST_OF_A_QUESTION = 1_000;
const LONGEST_NAME = 64;
/** Names and words of what no one is to type into a chat. */
const SECRET =
  /pass ?(?:word|wort|code|phrase)|kennwort|contrase|mot de passe|\bsenha\b|secret|credential|api ?key|private ?key|\b(?:access|refresh|bearer|auth|session) ?token|\bcvv|\bcvc|\bpin\b|card ?number|karten ?nummer|(?:security|recovery) (?:code|phrase)|\botp\b/i;
/** In a sentence a token may be anything; a field of that name is one. */
const TOKEN = /\btoken$/i;

/** Finds the reason why a question cannot be asked, whatever wrote it. */
function questionProblem({ key, question, schema }: Question): string | undefined {
  if (typeof key !== 'string' || key === '')
    return 'A question needs a key that names it in its call.';
  if (
    typeof question !== 'string' ||
    question.trim() === '' ||
    question.length > MOST_OF_A_QUESTION
  )
    return `A question is a text of 1 to ${MOST_OF_A_QUESTION} characters.`;
  if ([question, ...textsIn(schema)].some((text) => visible(text) !== text))
    return 'A question must have no characters that are not seen.';
  const fields = fieldsOf(schema);
  if (!fields)
    return `The answer to a question is one value, or an object of 1 to ${MOST_FIELDS} values: text, number, yes or no, a choice, or several of one list.`;
  return isSecret(question) || fields.some(([name, field]) => isSecretField(name, field))
    ? 'A question must not ask for a password, a key, a card number or another secret.'
    : undefined;
}

/**
 * Returns the fields of a question's schema by their names; undefined for a schema of any other
 * form.
 */
function fieldsOf(schema: JSONSchema7): readonly (readonly [string, JSONSchema7])[] | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined;
  if (schema.type !== 'object') return isField(schema) ? [['', schema]] : undefined;
  const fields = Object.entries<JSONSchema7Definition>(schema.properties ?? {});
  const sound = fields.flatMap(([name, field]) =>
    typeof field === 'object' && isField(field) ? [[name, field] as const] : [],
  );
  const isNamed = sound.every(([name]) => name.trim() !== '' && name.length <= LONGEST_NAME);
  return isNamed &&
    sound.length === fields.length &&
    fields.length > 0 &&
    fields.length <= MOST_FIELDS
    ? sound
    : undefined;
}

/** A pattern would be run on what a person types. */
function isField({ type, pattern, enum: values, items }: JSONSchema7): boolean {
  if (type === 'array')
    return typeof items === 'object' && !Array.isArray(items) && isChoice(items);
  return (
    pattern === undefined &&
    (SCALARS.has(type) || (type === undefined && Array.isArray(values) && values.length > 0))
  );
}

/** A choice among texts, which may have titles. */
function isChoice({ enum: values, anyOf, oneOf }: JSONSchema7): boolean {
  const named = (anyOf ?? oneOf)?.map((one) => typeof one === 'object' && one.const);
  const choices = values ?? named ?? [];
  return choices.length > 0 && choices.every((choice) => typeof choice === 'string');
}

function isSecretField(
  name: string,
  { title = '', description = '', format, writeOnly }: JSONSchema7,
): boolean {
  const words = name.replaceAll(/([a-z])([A-Z])/g, '$1 $2').replaceAll(/[_-]/g, ' ');
  return (
    writeOnly === true ||
    format === 'password' ||
    TOKEN.test(words) ||
    [words, title, description].some(isSecret)
  );
}

function isSecret(text: string): boolean {
  return SECRET.test(text.normalize('NFKC'));
}

/** Texts at any depth, names included. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null
    ? Object.keys(value).concat(Object.values(value).flatMap(textsIn))
    : [];
}
