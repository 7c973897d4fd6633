import { type JsonValue, ToolError, type ToolFailure } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import type { PendingAnswer, PendingOf } from '../contracts/pending.js';
import type { Question } from '../contracts/tool-call.js';
import type { ClientSide, Tool } from '../contracts/tool.js';
import { KeyedMutex } from '../pending/keyed-mutex.js';
import { isExpired } from '../pending/pending.service.js';
import { Asking, bindingOf, idFor, timesOf, unaskableReason, waitingCallOf } from './approvals.js';
import { idempotencyKeyOf } from './call-context.js';
import { CallFailure } from './call-failure.js';
import { advance, type AuthorisedCall, CallPending } from './call.js';
import { shownArguments } from './describe.js';

/** Has clients make calls, and takes their results. A call is sent out once it is let in, and its result is used where a method would have been called. */
export class ClientCalls extends Asking {
  /**
   * Puts the result of the client in the place of the tool's method; false where it came while the run waited: then the call has to be let in anew.
   *
   * @throws {CallFailure} `timeout` or `unknown_outcome` where none came in time, `execution_failed` where the client made no call, `aborted` where it was withdrawn.
   * @throws {CallPending} Where the run waits for the client.
   */
  async answer(call: AuthorisedCall, side: ClientSide): Promise<boolean> {
    const { scope, request, charge } = call;
    if (request.isDeferred) throw new CallPending();
    if (unaskableReason(scope) !== undefined) throw CallFailure.of('execution_failed', UNASKABLE);
    const record = await this.ask(call, side);
    if (record.answer) {
      await this.take(record, record.answer, call);
      return true;
    }
    scope.approvals.letIn.add(request.call.toolCallId);
    if (isExpired(record)) throw new CallFailure(expired(call.tool));
    if (charge) scope.spending.takeBack(charge); // it is counted when it has its result
    if (!(await this.answered(record, call))) throw new CallFailure(expired(call.tool));
    return false;
  }

  /**
   * Asks once. What a call changes is asked for by its idempotency key, so that a repeated request waits for the same answer; of a read, each run asks for its own.
   */
  private ask(call: AuthorisedCall, { resultSchema, expiresAfterMs }: ClientSide): Promise<PendingOf<'client'>> {
    const { tool, input, decision } = call;
    const { effect } = tool.spec;
    const binding = bindingOf(call, { policyVersion: decision?.policyVersion ?? '' });
    const { policyVersion: _version, toolCallId: _call, runId: _run, subRunId: _sub, ...what } = binding;
    const asked = effect === 'read_only' ? { binding: { ...binding, policyVersion: '' } } : { what, key: idempotencyKeyOf(call) };
    const idAfter = (before?: string): string =>
      idFor('cli', { ...asked, step: call.request.step, ...(before !== undefined && { after: before }) });
    return this.once('client', idAfter, (id) => {
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

  private async take(record: PendingOf<'client'>, answer: PendingAnswer, call: AuthorisedCall): Promise<void> {
    // The answer is this call's alone, and the journal keeps what it changes from counting twice.
    if (record.usedAt === undefined) {
      await this.tell(record, answer, call);
      await this.store.use(record.id);
    }
    const { decision, reason, value } = answer;
    if (decision === 'withdraw') throw CallFailure.of('aborted', worded('The actor of the run withdrew this call.', reason));
    if (decision !== 'answer') throw CallFailure.of('execution_failed', worded('The client did not make this call.', reason));
    advance(call, { tool: { ...call.tool, invoke: () => value } });
  }
}

const UNASKABLE = 'The call was not made: it is made by a client, and this run asks no one. Answer without it.';

function worded(what: string, reason: string | undefined): string {
  return reason === undefined ? what : `${what} It said: ${reason}`;
}

/** A client that was asked to change something may have done so and not said it. */
function expired({ spec }: Tool): ToolFailure {
  if (spec.effect === 'read_only')
    return { code: 'timeout', safeMessage: 'The client gave no result in time. Answer without it, or try again later.', retryable: true };
  return {
    code: 'unknown_outcome',
    safeMessage: 'The client gave no result in time. It is unknown whether it made the call. Do not repeat it; check first.',
  };
}

const QUESTION_EXPIRES_AFTER_MS = 86_400_000;
const MOST_OPEN = 5;

/** Asks people what calls want to know while they run. A question ends the attempt of its call; when the answer is there, the call is made again and finds it. */
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
        `${spec.declaredId} changes things, and may not ask while it does. Have a tool that only reads ask, and take the answer as an argument.`,
      );
    const problem = unaskableReason(call.scope) === undefined ? questionProblem(question) : 'No one can be asked in this run.';
    if (problem !== undefined) throw new ToolError(problem);
    const record = await this.turns.run(call.scope.run.path?.[0] ?? call.scope.run.runId, () => this.record(question, call));
    const { answer } = record;
    if (answer) return this.take(record, answer, call);
    if (isExpired(record)) throw new ToolError('The question was not answered in time.');
    const asking = new CallPending('question', undefined, undefined, record);
    advance(call, { asking });
    throw asking;
  }

  private record({ key, question, schema, askedBy = 'tool' }: Question, call: AuthorisedCall): Promise<PendingOf<'question'>> {
    const binding = bindingOf(call, { policyVersion: '' });
    const idAfter = (before?: string): string =>
      idFor('qst', { binding, step: call.request.step, key, schema, ...(before !== undefined && { after: before }) });
    return this.once('question', idAfter, async (id) => {
      await this.assertRoom(binding);
      const times = timesOf(QUESTION_EXPIRES_AFTER_MS);
      const isTainted = call.scope.flow.integrity !== 'trusted';
      const request = { questionId: id, ...waitingCallOf(call), question, schema, askedBy, isTainted, expiresAt: times.expiresAt };
      return this.keep(call, { id, kind: 'question', request, binding, admitted: [], rule: 'question', schema, ...times });
    });
  }

  private async assertRoom({ tenant, runId }: PendingOf<'question'>['binding']): Promise<void> {
    const waiting = await this.store.list({ tenant, runId, pending: true });
    const open = waiting.filter((record) => record.kind === 'question' && !isExpired(record));
    if (open.length >= MOST_OPEN) throw new ToolError(`${MOST_OPEN} questions of this run wait for answers already; ask no more.`);
  }

  private async take(record: PendingOf<'question'>, answer: PendingAnswer, call: AuthorisedCall): Promise<JsonValue> {
    if (record.usedAt === undefined) {
      await this.tell(record, answer, call);
      await this.store.use(record.id);
    }
    if (answer.decision === 'answer') return answer.value ?? null;
    throw new ToolError(worded('The person was asked and gave no answer.', answer.reason));
  }
}

const SCALARS = new Set<unknown>(['string', 'number', 'integer', 'boolean']);
const MOST_FIELDS = 8;
const MOST_OF_A_QUESTION = 1_000;
/** Names and words of what no one is to type into a chat. */
const SECRET =
  /pass ?(?:word|code|phrase)|secret|credential|api ?key|private ?key|\b(?:access|refresh|bearer|auth) ?token|\bcvv|\bcvc|\bpin\b|card ?number|\botp\b/i;

/** Finds the reason why a question cannot be asked, whatever wrote it. */
function questionProblem({ key, question, schema }: Question): string | undefined {
  if (typeof key !== 'string' || key === '') return 'A question needs a key that names it in its call.';
  if (typeof question !== 'string' || question.trim() === '' || question.length > MOST_OF_A_QUESTION)
    return `A question is a text of 1 to ${MOST_OF_A_QUESTION} characters.`;
  const fields = fieldsOf(schema);
  if (!fields)
    return `The answer to a question is one value, or an object of 1 to ${MOST_FIELDS} values: text, number, yes or no, or a choice.`;
  return isSecret(question) || fields.some(([name, field]) => isSecretField(name, field))
    ? 'A question must not ask for a password, a key, a card number or another secret.'
    : undefined;
}

/** Returns the fields of a question's schema by their names; undefined for a schema of any other form. */
function fieldsOf(schema: JSONSchema7): readonly (readonly [string, JSONSchema7])[] | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined;
  if (schema.type !== 'object') return isField(schema) ? [['', schema]] : undefined;
  const fields = Object.entries<JSONSchema7Definition>(schema.properties ?? {});
  const sound = fields.flatMap(([name, field]) => (typeof field === 'object' && isField(field) ? [[name, field] as const] : []));
  return sound.length === fields.length && fields.length > 0 && fields.length <= MOST_FIELDS ? sound : undefined;
}

/** A pattern would be run on what a person types. */
function isField({ type, pattern, enum: values }: JSONSchema7): boolean {
  return pattern === undefined && (SCALARS.has(type) || (type === undefined && Array.isArray(values) && values.length > 0));
}

function isSecretField(name: string, { title = '', description = '', format, writeOnly }: JSONSchema7): boolean {
  const words = name.replaceAll(/([a-z])([A-Z])/g, '$1 $2').replaceAll(/[_-]/g, ' ');
  return writeOnly === true || format === 'password' || [words, title, description].some(isSecret);
}

function isSecret(text: string): boolean {
  return SECRET.test(text);
}
