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
import type { Tool } from '../contracts/tool.js';
import { labelsOfBits } from '../policy/flow.js';
import { hiddenBeyond } from '../policy/rules.js';
import { namesOutsiders, OF_APPLICATION, readOrigins } from '../schema/field-origins.js';
import type { SchemaValidators } from '../schema/validators.js';
import type { Call, ReadCall, ToolOutcome } from './call.js';
import type { RunValues } from '../policy/value-references.js';
import { ReaderAnswer, ShownTexts } from './run-tools.js';

/** Failures in our own words, which tell nothing that the model had not read; what a tool says of its failure may. */
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
 * Reads a result by the fields of its schema: counts what is from outside in it, and at the level `values` puts references in the place of its texts. Undefined where the labels of the tool hold
 * for all of it.
 */
export function readByFields(call: ReadCall, live: unknown, value: JsonValue, validators: SchemaValidators): ReadResult | undefined {
  if (live instanceof ShownTexts) return undefined;
  if (live instanceof ReaderAnswer) return readAnswer(call, live, validators);
  if (tellsNothing(call.tool)) return undefined;
  const values = valuesFor(call);
  const { spec, origin } = call.tool;
  const schema = origin.trusted ? spec.outputSchema : undefined;
  return isReadAsWhole(call, schema, values) ? undefined : readFields(call, value, schema, values);
}

/** Tells whether a model reads of a tool's results no more than that a call has succeeded, in our own words. */
export function tellsNothing({ origin, spec: { redaction } }: Pick<Tool, 'origin' | 'spec'>): boolean {
  return origin.trusted && redaction.kind === 'reveal' && redaction.fields.length === 0;
}

/** Tells whether the labels of a tool hold for all of its result. Those of a sub-run are of what its model had read; those of a tool that took a text from outside hold for nothing that it may repeat. */
function isReadAsWhole(call: ReadCall, schema: JSONSchema7 | undefined, values: RunValues | undefined): boolean {
  const { tool } = call;
  if (tool.subRun) return true;
  if (takenBy(call).length > 0) return false;
  if (schema && !(isOfApplication(tool) && !namesOutsiders(schema))) return false;
  return !values || isOfApplication(tool);
}

function readFields(call: ReadCall, value: JsonValue, schema: JSONSchema7 | undefined, values: RunValues | undefined): ReadResult {
  const { spec } = call.tool;
  const { reads } = spec.labels;
  const { flow, actorId } = call.scope;
  const hidden: string[] = [];
  const taken = takenBy(call);
  const hide = values && noting(hidden, hidingIn(values, spec.declaredId, taken));
  const { shown, outsideBits } = readOrigins(value, schema, {
    inherited: inheritedOrigin(call, taken),
    isChosen: isChosenBy(call, taken),
    actorId,
    isKnown: (id) => flow.isTraced(id),
    ...(hide && { hide }),
  });
  if (values && outsideBits > 0 && flow.outsideBits + outsideBits > mostBitsFor(call))
    return { shown: values.hide(value, `${spec.declaredId}#`, ...taken), labels: { returns: 'trusted', reads } };
  return { ...(hidden.length > 0 && { shown }), labels: { ...labelsOfBits(outsideBits), reads } };
}

/** Returns the places of the texts from outside that a call has taken, in whatever form it was approved. */
function takenBy({ request, scope: { values } }: Pick<Call, 'request' | 'scope'>): readonly string[] {
  return values?.takenBy(request.call.arguments).flatMap(({ from }) => from) ?? [];
}

/** The origin of what no field says. A tool that vouches for all of its results does not for what it may repeat of a text that it took. */
function inheritedOrigin({ tool }: ReadCall, taken: readonly string[]): ValueOrigin {
  return isOfApplication(tool) && taken.length === 0 ? 'application' : 'outside';
}

/** Tells whether a text from outside has chosen what a result is about: then someone outside speaks by every field of it, of whatever origin. */
function isChosenBy({ tool, input: { outside = [] } }: ReadCall, taken: readonly string[]): boolean {
  const { decisive } = tool.spec.labels;
  return taken.length > 0 && (outside.length === 0 || outside.some(({ name }) => decisive?.includes(name) ?? true));
}

/** An answer about hidden values is theirs: what is of low capacity in it is told and counted, while the run has room for it, and the rest is a further reference. */
function readAnswer(call: ReadCall, { answer, schema, from, isTold }: ReaderAnswer, validators: SchemaValidators): ReadResult | undefined {
  const { values, flow, actorId } = call.scope;
  if (!values) return undefined;
  const hide: Hide = (value) => values.hide(value, ...from);
  if (!isTold) return { shown: { answer: hide(answer, '') }, labels: { returns: 'trusted', reads: 'private' } };
  validators.distrust(schema);
  const fits = validators.problemWith(schema) === undefined && validators.validate(schema, structuredClone(answer)).length === 0;
  const read = readOrigins(answer, fits ? schema : undefined, { inherited: 'outside', actorId, isKnown: () => false, hide });
  const isWithin = flow.outsideBits + read.outsideBits <= mostBitsFor(call);
  const { shown, outsideBits } = isWithin ? read : { shown: hide(answer, ''), outsideBits: 0 };
  return { shown: { answer: shown }, labels: { ...labelsOfBits(outsideBits), reads: 'private' } };
}

/** The answer to a call that is not made now, as the model reads it: what was made of its arguments is hidden where they hold a text from outside. */
export function toldAnswer(call: Call, answer: JsonObject): ReadResult & { readonly shown: JsonObject } {
  const { tool, scope } = call;
  const taken = takenBy(call);
  if (!tool || !scope.values || taken.length === 0) return { shown: answer };
  const hide = hidingIn(scope.values, tool.spec.declaredId, taken);
  const { shown } = readOrigins(answer, NOT_MADE_NOW, { inherited: 'outside', actorId: undefined, isKnown: () => false, hide });
  return { shown: isJsonObject(shown) ? shown : { ok: true }, labels: { returns: 'trusted', reads: tool.spec.labels.reads } };
}

/** The parts of such an answer that are no words about the arguments. */
const NOT_MADE_NOW: JSONSchema7 = {
  type: 'object',
  properties: {
    ...Object.fromEntries(['ok', 'type', 'status', 'note', 'id', 'expiresAt'].map((name) => [name, OF_APPLICATION])),
    result: { type: 'object', properties: { directive_id: OF_APPLICATION, status: OF_APPLICATION, preview: {}, subject: {} } },
    preview: {},
    human_readable: {},
  },
};

/** A failure as the model reads it: at the level `values` a reference stands in the place of what the tool says. */
export function hiddenFailure(call: Call, failure: ToolFailure): { readonly failure: ToolFailure; readonly labels?: MessageLabels } {
  const { tool } = call;
  const values = tool && !OWN_WORDS.has(failure.code) ? valuesFor(call) : undefined;
  if (!tool || !values) return { failure };
  const taken = takenBy(call);
  const isOfModel = failure.code === 'invalid_args' && taken.length === 0;
  if (isOfApplication(tool) && taken.length === 0) return { failure };
  if (isOfModel) return { failure, labels: { returns: 'trusted', reads: tool.spec.labels.reads } }; // it repeats what the model wrote
  const { problems: _problems, ...known } = { problems: undefined, ...failure };
  const safeMessage = values.hide(failure.safeMessage, `${tool.spec.declaredId}#error`, ...taken);
  const bits = taken.length > 0 ? FAILURE_BITS : 0; // that it failed is what the text says
  return { failure: { ...known, safeMessage }, labels: { ...labelsOfBits(bits), reads: tool.spec.labels.reads } };
}

/** A result that is from outside after all, as someone outside had something written into the store that it is from: hidden whole at the level `values`, and labelled so at all others. */
export function asFromOutside(call: Call, { hinted: _hinted, ...outcome }: ToolOutcome): ToolOutcome {
  const { declaredId = '', labels } = call.tool?.spec ?? {};
  const reads = labels?.reads ?? 'private';
  const values = valuesFor(call);
  const { live: _live, content, ...told } = outcome;
  if (!values || typeof content !== 'string' || outcome.record.error) return { ...outcome, labels: { returns: 'untrusted', reads } };
  return { ...told, content: values.hide(content, `${declaredId}#`), labels: { returns: 'trusted', reads } }; // its entities would be told by their names
}

/** Tells whether everything that a tool returns is the application's, but for fields that say otherwise. */
function isOfApplication({ origin, spec }: Tool): boolean {
  return origin.trusted && spec.labels.returns === 'trusted';
}

/** A call that took a text fails or does not. */
const FAILURE_BITS = 1;

type Hide = (value: JsonValue, pointer: string) => string;

function noting(hidden: string[], hide: Hide): Hide {
  return (value, pointer) => {
    const reference = hide(value, pointer);
    hidden.push(reference);
    return reference;
  };
}

function hidingIn(values: RunValues, declaredId: string, taken: readonly string[]): Hide {
  return (value, pointer) => values.hide(value, `${declaredId}#${pointer}`, ...taken);
}

/** The values of a run whose policies hide texts from outside; undefined where none does, and where the run could do nothing with what it reads. A sub-run reports to one that may. */
function valuesFor({ scope }: Pick<Call, 'scope'>): RunValues | undefined {
  const { values, policies, actor, toolset, callPath } = scope;
  const isHiding = values && hiddenBeyond(policies, actor) !== undefined;
  const canAct =
    callPath !== undefined ||
    toolset.tools.some(({ spec, subRun, surface }) => spec.effect !== 'read_only' || spec.labels.egress || subRun || surface);
  return isHiding && canAct ? values : undefined;
}

/** The bits from outside that the run may be told in all; none where its policies hide nothing any more. */
function mostBitsFor({ scope: { policies, actor } }: Pick<Call, 'scope'>): number {
  return hiddenBeyond(policies, actor) ?? 0;
}
