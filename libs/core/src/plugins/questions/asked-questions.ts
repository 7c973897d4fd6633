import { type JsonValue, ToolError, visible } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import { advance, type AuthorisedCall, type ReadCall } from '../../call/call.js';
import { CallPending } from '../../call/outcome.js';
import type { Pending, PendingAnswer, PendingOf } from '../../contracts/pending.js';
import type { Question } from '../../contracts/tool-call.js';
import { subjectOf } from '../../policy/decide.js';
import { answeredBy } from '../../policy/rules.js';
import {
  bindingOf,
  callIn,
  expiryOf,
  idFor,
  timesOf,
  unaskableReason,
  waitingCallOf,
} from '../approvals/approval-question.js';
import { Asking } from '../approvals/asking.js';
import { worded } from '../client-tools/client-calls.js';
import { KeyedMutex } from '../inbox/keyed-mutex.js';
import { isExpired } from '../inbox/pending.service.js';
import { withdraw } from '../inbox/withdrawal.js';

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

const MOST_OPEN = 5;
/** More than a run asks. */
const MOST_OF_A_RUN = 1_000;

export const NOT_IN_TIME = 'The question was not answered in time.';

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
