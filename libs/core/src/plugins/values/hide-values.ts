import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type MessageLabels,
  type ToolErrorCode,
  type ToolFailure,
  type ValueOrigin,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { Tool } from '../../contracts/tool.js';
import { labelsOfBits } from '../flow/message-flow.js';
import { hiddenBeyond } from '../../policy/rules.js';
import {
  isAlwaysHidden,
  LEFT_OUT_BY_APPLICATION,
  namesOutsiders,
  OF_APPLICATION,
  type OriginReading,
  readOrigins,
  type ReadValue,
} from '../../schema/field-origins.js';
import type { SchemaValidators } from '../../schema/validators.js';
import type { Call, ReadCall } from '../../call/call.js';
import type { ToolOutcome } from '../../call/outcome.js';
import { ReadBySchema } from './read-by-schema.js';
import { referencedBy, type RunValues } from './value-references.js';
import { parseJson } from '../../schema/canonical-json.js';
import { ReaderAnswer, ShownTexts, VALUE_TOOL_IDS } from './value-tools.js';

/**
 * Reads a result by the fields of its schema: counts what is from outside in it, and at the level
 * `values` puts references in the place of its texts. Undefined where the labels of the tool hold
 * for all of it.
 */
export function readByFields(
  call: ReadCall,
  live: unknown,
  value: JsonValue,
  validators: SchemaValidators,
): ReadResult | undefined {
  if (live instanceof ShownTexts) return undefined;
  if (live instanceof ReaderAnswer) return readAnswer(call, live, validators);
  if (tellsNothing(call.tool)) return undefined;
  const values = valuesFor(call);
  const { spec, origin } = call.tool;
  const declared = live instanceof ReadBySchema ? live.schema : spec.outputSchema;
  const schema = origin.trusted ? declared : undefined;
  return isReadAsWhole(call, schema, values) ? undefined : readFields(call, value, schema, values);
}

/**
 * Failures in our own words, which tell nothing that the model had not read; what a tool says of
 * its failure may.
 */
export const OWN_WORDS: ReadonlySet<ToolErrorCode> = new Set<ToolErrorCode>([
  'unknown_tool',
  'tool_gone',
  'invalid_json',
  'tenant_override',
  'policy_denied',
  'approval_denied',
  'timeout',
  'aborted',
]);

/** A result as the model reads it, and what it tells from outside. */
interface ReadResult {
  /** Absent where it is shown as it is. */
  readonly shown?: JsonValue;
  /** Absent where the labels of the tool hold. */
  readonly labels?: MessageLabels;
}

/**
 * Tells whether a model reads of a tool's results no more than that a call has succeeded, in our
 * own words.
 */
export function tellsNothing({
  origin,
  spec: { redaction },
}: Pick<Tool, 'origin' | 'spec'>): boolean {
  return origin.trusted && redaction.kind === 'reveal' && redaction.fields.length === 0;
}

/**
 * Tells whether the labels of a tool hold for all of its result. Those of a sub-run are of what its
 * model had read; those of a tool that took a text from outside hold for nothing that it may
 * repeat.
 */
function isReadAsWhole(
  call: ReadCall,
  schema: JSONSchema7 | undefined,
  values: RunValues | undefined,
): boolean {
  const { tool } = call;
  if (tool.subRun) return true;
  if (takenBy(call).length > 0) return false;
  if (schema && !(isOfApplication(tool) && !namesOutsiders(schema))) return false;
  return !values || isOfApplication(tool);
}

function readFields(
  call: ReadCall,
  value: JsonValue,
  schema: JSONSchema7 | undefined,
  values: RunValues | undefined,
): ReadResult {
  const { spec } = call.tool;
  const { reads } = spec.labels;
  const { flow, actorId } = call.scope;
  const taken = takenBy(call);
  const reading: OriginReading = {
    inherited: inheritedOrigin(call, taken),
    isChosen: isChosenBy(call, taken),
    actorId,
    knownIds: (isSuch) => flow.tracedWords?.(isSuch) ?? new Set(),
  };
  if (!values)
    return { labels: { ...labelsOfBits(readOrigins(value, schema, reading).outsideBits), reads } };
  const read = (hide: Hide): ReadValue => readOrigins(value, schema, { ...reading, hide });
  const { shown, outsideBits } = withinBudget(
    call,
    value,
    read,
    hidingIn(values, spec.declaredId, taken),
  );
  return { ...(shown !== value && { shown }), labels: { ...labelsOfBits(outsideBits), reads } };
}

/**
 * Reads a value by its fields where the run has room for what they tell, and hides it whole where
 * it has not. Which of the two happens may be up to someone outside, so that it is a bit. It is
 * counted first and hidden afterwards: the run keeps no value that its model was not told of.
 */
function withinBudget(
  call: ReadCall,
  value: JsonValue,
  read: (hide: Hide) => ReadValue,
  hide: Hide,
): ReadValue {
  const hidden: JsonValue[] = [];
  const { outsideBits } = read((one) => String(hidden.push(one)));
  const room = roomOf(call);
  if (outsideBits > Math.max(0, room))
    return { shown: hide(value, ''), outsideBits: room < 1 ? 0 : 1 };
  return hidden.length > 0 ? read(hide) : { shown: value, outsideBits };
}

/**
 * Returns the places of the texts from outside that a call has taken, in whatever form it was
 * approved. The tools that ask about texts take them by their names alone as well.
 */
function takenBy({
  tool,
  request,
  scope: { values },
}: Pick<Call, 'tool' | 'request' | 'scope'>): readonly string[] {
  if (!values || values.isEmpty) return [];
  const input =
    tool && VALUE_TOOL_IDS.has(tool.spec.declaredId)
      ? parseJson(request.call.arguments)
      : undefined;
  const named = isJsonObject(input)
    ? referencedBy(input['of']).flatMap((id) => values.find(id) ?? [])
    : [];
  return [...values.takenBy(request.call.arguments), ...named].flatMap(({ from }) => from);
}

/**
 * The origin of what no field says. A tool that vouches for all of its results does not for what it
 * may repeat of a text that it took.
 */
function inheritedOrigin({ tool }: ReadCall, taken: readonly string[]): ValueOrigin {
  return isOfApplication(tool) && taken.length === 0 ? 'application' : 'outside';
}

/**
 * Tells whether a text from outside has chosen what a result is about: then someone outside speaks
 * by every field of it, of whatever origin.
 */
function isChosenBy(
  { tool, input: { outside = [] } }: ReadCall,
  taken: readonly string[],
): boolean {
  const { decisive } = tool.spec.labels;
  return (
    taken.length > 0 &&
    (outside.length === 0 || outside.some(({ name }) => decisive?.includes(name) ?? true))
  );
}

/**
 * An answer about hidden values is theirs: what is of low capacity in it is told and counted, while
 * the run has room for it, and the rest is a further reference.
 */
function readAnswer(
  call: ReadCall,
  { answer, schema, from, isTold }: ReaderAnswer,
  validators: SchemaValidators,
): ReadResult | undefined {
  const { values, actorId } = call.scope;
  if (!values) return undefined;
  const hide: Hide = (value) => values.hide(value, ...from);
  validators.distrust(schema);
  const mayTell =
    isTold &&
    validators.problemWith(schema) === undefined &&
    !isAlwaysHidden(schema) &&
    roomOf(call) >= 1;
  if (!mayTell)
    return {
      shown: { answer: hide(answer, '') },
      labels: { returns: 'trusted', reads: 'private' },
    };
  const fits = validators.validate(schema, structuredClone(answer)).length === 0;
  const read = (hiding: Hide): ReadValue =>
    // hidden, like one that tells too much
    fits
      ? readOrigins(answer, schema, { actorId, hide: hiding })
      : { shown: answer, outsideBits: Infinity };
  const { shown, outsideBits } = withinBudget(call, answer, read, hide);
  return { shown: { answer: shown }, labels: { ...labelsOfBits(outsideBits), reads: 'private' } };
}

/**
 * The answer to a call that is not made now, as the model reads it: what was made of its arguments
 * is hidden where they hold a text from outside.
 */
export function toldAnswer(
  call: Call,
  answer: JsonObject,
): ReadResult & { readonly shown: JsonObject } {
  const { tool, scope } = call;
  const taken = takenBy(call);
  if (!tool || !scope.values || taken.length === 0) return { shown: answer };
  const hide = hidingIn(scope.values, tool.spec.declaredId, taken);
  const { shown } = readOrigins(answer, NOT_MADE_NOW, {
    actorId: undefined,
    hide,
  });
  return {
    shown: isJsonObject(shown) ? shown : { ok: true },
    labels: { returns: 'trusted', reads: tool.spec.labels.reads },
  };
}

/** The parts of such an answer that are no words about the arguments. */
const NOT_MADE_NOW: JSONSchema7 = {
  type: 'object',
  properties: {
    ...Object.fromEntries(
      ['ok', 'type', 'status', 'note', 'id', 'expiresAt'].map((name) => [name, OF_APPLICATION]),
    ),
    result: {
      type: 'object',
      properties: {
        directive_id: OF_APPLICATION,
        status: OF_APPLICATION,
        preview: LEFT_OUT_BY_APPLICATION,
        subject: LEFT_OUT_BY_APPLICATION,
      },
    },
    preview: LEFT_OUT_BY_APPLICATION,
    human_readable: LEFT_OUT_BY_APPLICATION,
  },
};

/** A failure as a model reads it, and what it tells from outside. */
interface ToldFailure {
  readonly failure: ToolFailure;
  readonly labels?: MessageLabels;
}

/**
 * A failure as the model reads it: at the level `values` a reference stands in the place of what
 * the tool says.
 */
export function hiddenFailure(call: Call, failure: ToolFailure): ToldFailure {
  const values = call.tool && valuesFor(call);
  if (!values) return { failure };
  const taken = takenBy(call);
  return taken.length > 0
    ? tellingFailure(call.tool, failure, values, taken)
    : ownFailure(call.tool, failure, values);
}

/** A failure of a call that took no text from outside. */
function ownFailure(tool: Tool, failure: ToolFailure, values: RunValues): ToldFailure {
  if (OWN_WORDS.has(failure.code) || isOfApplication(tool)) return { failure };
  const labels = { returns: 'trusted', reads: tool.spec.labels.reads } as const;
  // it repeats what the model wrote
  return {
    failure: failure.code === 'invalid_args' ? failure : withHiddenWords(tool, failure, values),
    labels,
  };
}

/**
 * A failure of a call that took texts from outside: that it fails tells something of them, in our
 * words as in those of the tool.
 */
function tellingFailure(
  tool: Tool,
  failure: ToolFailure,
  values: RunValues,
  taken: readonly string[],
): ToldFailure {
  const { declaredId, labels } = tool.spec;
  // they take names, whatever stands behind them
  const isOfModel = failure.code === 'invalid_args' && VALUE_TOOL_IDS.has(declaredId);
  if (isOfModel) return { failure, labels: { returns: 'trusted', reads: labels.reads } };
  const told = OWN_WORDS.has(failure.code)
    ? failure
    : withHiddenWords(tool, failure, values, taken);
  return { failure: told, labels: { ...labelsOfBits(FAILURE_BITS), reads: labels.reads } };
}

function withHiddenWords(
  { spec }: Tool,
  failure: ToolFailure,
  values: RunValues,
  taken: readonly string[] = [],
): ToolFailure {
  const { problems: _problems, ...known } = { problems: undefined, ...failure };
  return {
    ...known,
    safeMessage: values.hide(failure.safeMessage, `${spec.declaredId}#error`, ...taken),
  };
}

/**
 * A result that is from outside after all, as someone outside had something written into the store
 * that it is from: hidden whole at the level `values`, and labelled so at all others.
 */
export function asFromOutside(call: Call, outcome: ToolOutcome): ToolOutcome {
  if (isInOurWords(outcome)) return outcome;
  const { hinted: _hinted, live, content, ...told } = outcome;
  const { declaredId = '', labels } = call.tool?.spec ?? {};
  const reads = labels?.reads ?? 'private';
  const values = valuesFor(call);
  if (!values || typeof content !== 'string' || told.record.error)
    return { ...told, live, content, labels: { returns: 'untrusted', reads } };
  // its entities would be told by their names
  return {
    ...told,
    content: values.hide(content, `${declaredId}#`),
    labels: { returns: 'trusted', reads },
  };
}

function isInOurWords({ record: { error } }: ToolOutcome): boolean {
  return error !== undefined && OWN_WORDS.has(error.code);
}

/**
 * Tells whether everything that a tool returns is the application's, but for fields that say
 * otherwise.
 */
function isOfApplication({ origin, spec }: Tool): boolean {
  return origin.trusted && spec.labels.returns === 'trusted';
}

/**
 * A call that took a text fails or does not: with one of fourteen codes, to be made again or not.
 */
const FAILURE_BITS = 5;

type Hide = (value: JsonValue, pointer: string) => string;

function hidingIn(values: RunValues, declaredId: string, taken: readonly string[]): Hide {
  return (value, pointer) => values.hide(value, `${declaredId}#${pointer}`, ...taken);
}

/**
 * The values of a run whose policies hide texts from outside; undefined where none does, and where
 * the run could do nothing with what it reads. A sub-run reports to one that may.
 */
function valuesFor({ scope }: Pick<Call, 'scope'>): RunValues | undefined {
  const { values, policies, actor, toolset, callPath } = scope;
  const isHiding = values && hiddenBeyond(policies, actor) !== undefined;
  const canAct =
    callPath !== undefined ||
    toolset.tools.some(
      ({ spec, subRun, surface }) =>
        spec.effect !== 'read_only' || spec.labels.egress || subRun || surface,
    );
  return isHiding && canAct ? values : undefined;
}

/**
 * The bits from outside that the run may still be told; none where its policies hide nothing any
 * more.
 */
function roomOf({ scope: { policies, actor, flow } }: Pick<Call, 'scope'>): number {
  return (hiddenBeyond(policies, actor) ?? 0) - flow.outsideBits;
}
