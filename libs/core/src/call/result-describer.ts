import {
  type Audience,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type LoopEventBody,
  type LoopEventOf,
  type RecordedAttachment,
  visible,
} from '@toolloop/protocol';
import type { Attachment } from '../contracts/attachment.js';
import type { BothProjections, ProjectionObserver } from '../contracts/result-projector.js';
import type { Tool } from '../contracts/tool.js';
import { Logger } from '../findings/logger.js';
import { type Hinted, ShownObjects } from '../plugins/entities/shown-objects.js';
import { ResultPage, cut, readingOf } from '../plugins/pages/result-pages.js';
import { RESULT_READER } from '../plugins/pages/result-reader.js';
import { readByFields } from '../plugins/values/hide-values.js';
import { isPermitted } from '../policy/decide.js';
import { ProjectionError } from '../schema/projection-walk.js';
import type { SchemaValidators } from '../schema/validators.js';
import { readAttachments, type ReadAttachments } from './attachments.js';
import { CallFailure } from './call-failure.js';
import { advance, type ReadCall } from './call.js';
import type { InvokedResult, ToolOutcome } from './outcome.js';
import { type LostForm, ResultForm } from './result-form.js';

/**
 * Stage 8: checks a result against what the tool declares, projects it for model and ui, and cuts
 * it to its byte budget.
 */
export class ResultDescriber {
  private readonly logger = new Logger(ResultDescriber.name);

  constructor(private readonly validators: SchemaValidators) {}

  /**
   * @throws `invalid_output`; what is wrong with the result is in the log, for the developer.
   *   Whether the tool had an effect is not known here.
   */
  describe(call: ReadCall, invoked: InvokedResult): DescribedResult {
    const lost =
      invoked.live instanceof ResultPage
        ? undefined
        : new ResultForm(call.tool, this.validators).lostBy(invoked);
    if (lost) throw this.invalid(call.tool, lostIn(lost));
    return this.described(call, invoked);
  }

  private described(call: ReadCall, invoked: InvokedResult): DescribedResult {
    const { live: returned, attachments } = invoked;
    const { limits, options } = call;
    const { resultBytes: mostBytes } = limits;
    if (returned instanceof ResultPage) return describedPage(call, returned);
    const objects = options.availableOperations ? new ShownObjects() : undefined;
    const { live, both, model, note } = this.declared(call, invoked, objects);
    const told = this.told(call, { live, attachments, model });
    const metadata = metadataOf(call);
    const ui = withMetadata(withoutSecrets(this.shown(call, 'ui', both.ui), call), metadata);
    const sentence = this.sentenceFor(call, told);
    const attached = this.attached(call, attachments);
    const notes = behind(note, attached?.note);
    const word = (value: JsonValue): string =>
      resultText(call, { live, value: withMetadata(value, metadata), sentence }) + notes;
    const isHidden = told !== model;
    const described = {
      ...shortened(call, word(told)),
      ...(isHidden && { isHidden, lasting: cut(word(model), mostBytes) }),
    };
    const hinted =
      described.truncated || isHidden
        ? undefined
        : objects?.hinted(() => word(withoutSecrets(both.model, call)), mostBytes);
    const fitted = within(ui, mostBytes, { told, bytes: described.bytes });
    return {
      ...described,
      ...(hinted && { hinted }),
      ui: fitted,
      ...(attached && { attachments: attached.kept }),
    };
  }

  /** A result in the form that its tool declares, or, of an untrusted source, in its own words. */
  private declared(
    call: ReadCall,
    { result: live, words, ...invoked }: InvokedResult,
    objects?: ShownObjects,
  ): DeclaredResult {
    const { tool } = call;
    const both = this.shown(call, 'model', () => bothProjections(tool, live, objects?.observe));
    const model = withoutSecrets(both.model, call);
    const problem = this.problemIn(tool, model);
    if (problem === undefined) return { live, both, model };
    if (!isSaidBySource(tool, { ...invoked, result: live })) throw this.invalid(tool, problem);
    this.logger.warn(
      `The result of ${tool.spec.declaredId} does not match its declaration: ${visible(problem)}`,
    );
    if (words === undefined) return { live, both, model, note: UNDECLARED };
    const said = this.shown(call, 'model', () => bothProjections(tool, words, undefined));
    return { live: words, both: said, model: withoutSecrets(said.model, call), note: UNDECLARED };
  }

  /**
   * The result as the model reads it, labelled by who wrote its fields. An image cannot be hidden,
   * so the labels of the tool hold for what comes with one.
   */
  private told(call: ReadCall, { live, attachments, model }: ProjectedResult): JsonValue {
    const hasFields = call.scope.values !== undefined || call.tool.spec.outputSchema !== undefined;
    const read =
      hasFields && attachments.length === 0
        ? readByFields(call, live, model, this.validators)
        : undefined;
    if (read) advance(call, { labels: read.labels });
    return read?.shown ?? model;
  }

  private problemIn({ spec: { outputSchema } }: Tool, model: JsonValue): string | undefined {
    const problems = outputSchema ? this.validators.validate(outputSchema, model) : [];
    return problems.length === 0
      ? undefined
      : problems.map(({ pointer, message }) => `${pointer || 'result'} ${message}`).join('; ');
  }

  private attached(
    { tool, scope }: ReadCall,
    attachments: readonly Attachment[],
  ): ReadAttachments | undefined {
    if (attachments.length === 0) return undefined;
    const attached = readAttachments(attachments, scope.limits.attachmentBytes);
    if (attached.note !== undefined)
      this.logger.warn(
        `${tool.spec.declaredId} (run ${scope.run.runId}): ${visible(attached.note)}`,
      );
    return attached;
  }

  /** The tool has done its work: that it cannot word it is no failure of the call. */
  private sentenceFor({ tool, options, scope }: ReadCall, model: JsonValue): string | undefined {
    if (options.resultFormat === 'value') return undefined;
    try {
      return tool.humanReadable?.(model);
    } catch (error) {
      this.logger.warn(
        `The result of ${tool.spec.declaredId} could not be put into words (run ${scope.run.runId}).`,
        error,
      );
      return undefined;
    }
  }

  private shown<Shown>(
    { tool, credentials }: ReadCall,
    audience: Audience,
    project: () => Shown,
  ): Shown {
    try {
      return redacted(audience, project);
    } catch (error) {
      throw this.invalid(
        tool,
        error instanceof RedactionError ? error.message : 'the projection failed',
        { error, credentials },
      );
    }
  }

  private invalid(
    tool: Tool,
    reason: string,
    thrown?: { readonly error: unknown; readonly credentials: ReadCall['credentials'] },
  ): CallFailure {
    const { error, credentials } = thrown ?? {};
    const cause = error instanceof RedactionError ? error.cause : error;
    this.logger.error(
      `The result of ${tool.spec.declaredId} does not match its declaration: ${visible(reason)}`,
      credentials?.error(cause) ?? cause,
    );
    return new CallFailure(
      { code: 'invalid_output', safeMessage: 'The tool ran, but its result cannot be shown.' },
      { cause: error },
    );
  }
}

/** A result as its two readers see it. */
export interface DescribedResult {
  /** For the model; text, or JSON as text. */
  readonly content: string;
  /** The same for a reader in another run, in which no handle holds. */
  readonly lasting: string;
  readonly ui: JsonValue;
  /** Set where references stand in the content for texts that are in `lasting` as they are. */
  readonly isHidden?: boolean;
  /** Bytes of the model's projection before it was cut. */
  readonly bytes: number;
  readonly truncated: boolean;
  /** Absent where there are none. */
  readonly attachments?: readonly RecordedAttachment[];
  /** Set where the model may be told what can be called on the entities in it. */
  readonly hinted?: Hinted;
}

/** Names the interceptor, and the way to leave it out. */
function lostIn({ interceptor = 'an interceptor' }: LostForm): string {
  return (
    `${interceptor} made something else of it. Have it leave tool calls alone, see ToolExecutionContext.isToolCall(), or leave it out: ` +
    `ToolLoopModule.forRoot({ interceptors: { except: [${interceptor}] } }), or in @LlmTool().`
  );
}

/** Writes notes behind a text, each on a line of its own. */
function behind(...notes: readonly (string | undefined)[]): string {
  return notes.flatMap((note) => (note === undefined ? [] : [`\n${note}`])).join('');
}

/** A result that may be shown. */
interface DeclaredResult {
  readonly live: unknown;
  readonly both: BothProjections;
  /** The model's projection, without secrets. */
  readonly model: JsonValue;
  /** The note that the model reads of a result that is not in the declared form. */
  readonly note?: string;
}

/** It has no word of the source: what that says may be hidden from the model. */
const UNDECLARED =
  '[The tool ran. Its answer is not in the form that the tool declares, so it is shown as it came.]';

/**
 * Tells whether a result is what an untrusted source said, all of which may leave. Such a tool has
 * done its work, in whatever form it tells of it; an interceptor's change of it is held against the
 * declaration.
 */
function isSaidBySource(
  { origin, spec: { redaction } }: Tool,
  { live, result, method }: Pick<InvokedResult, 'live' | 'result' | 'method'>,
): boolean {
  return (
    !origin.trusted &&
    method === 'answered' &&
    live === result &&
    redaction.kind === 'reveal' &&
    redaction.fields === 'all'
  );
}

/** A result with its projection for the model. */
type ProjectedResult = Pick<InvokedResult, 'live' | 'attachments'> & { readonly model: JsonValue };

/**
 * A value for the ui: its beginning as text where it is longer than the budget. What the model was
 * told is no longer than its text, unless it is a text.
 */
function within(
  value: JsonValue,
  mostBytes: number,
  { told, bytes }: { readonly told: JsonValue; readonly bytes: number },
): JsonValue {
  if (value === told && typeof value !== 'string' && bytes <= mostBytes) return value;
  const text = JSON.stringify(value);
  return Buffer.byteLength(text) > mostBytes ? cut(text, mostBytes) : value;
}

/** The value without the credentials that the call was handed. */
function withoutSecrets(value: JsonValue, { credentials }: ReadCall): JsonValue {
  return credentials?.json(value) ?? value;
}

/** Returns the part of a result's text that fits, and if there is more, the way to it. */
function shortened(
  { tool, scope, labels, limits: { resultBytes: mostBytes } }: ReadCall,
  text: string,
): Pick<DescribedResult, 'content' | 'lasting' | 'bytes' | 'truncated'> {
  const bytes = Buffer.byteLength(text);
  if (bytes <= mostBytes) return { content: text, lasting: text, bytes, truncated: false };
  const lasting = cut(text, mostBytes);
  const isReadable =
    mostBytes >= LEAST_PAGE_BYTES && scope.pages !== undefined && isPermitted(RESULT_READER, scope);
  const handle = isReadable ? scope.pages?.keep(tool, text, labels) : undefined;
  if (handle === undefined) return { content: lasting, lasting, bytes, truncated: true };
  const content = cut(
    text,
    mostBytes,
    (all, shown) =>
      `\n[… ${all} bytes in all; the middle was left out. Read on: ${readingOf(handle, shown)} …]\n`,
  );
  return { content, lasting, bytes, truncated: true };
}

/** A smaller page would be little but its note. */
const LEAST_PAGE_BYTES = 256;

/** A page is text of the model's own projection, which was checked and projected before. */
function describedPage(call: ReadCall, page: ResultPage): DescribedResult {
  advance(call, { shownTool: page.tool, ...(page.labels && { labels: page.labels }) });
  const content = page.fitted(call.limits.resultBytes, (value) =>
    resultText(call, { live: page, value, sentence: undefined }),
  );
  return {
    content,
    lasting: content,
    ui: page.facts,
    bytes: Buffer.byteLength(content),
    truncated: false,
  };
}

/** A result on its way to the model. */
interface ShownValue {
  readonly live: unknown;
  /** The model's projection. */
  readonly value: JsonValue;
  /** The result in a sentence, where the tool words it. */
  readonly sentence: string | undefined;
}

/**
 * Returns the text of a result that the model reads: the value or the envelope, as JSON; a text as
 * it is.
 */
function resultText({ tool, options }: ReadCall, { live, value, sentence }: ShownValue): string {
  if (options.resultFormat === 'envelope') {
    const worded = sentence !== undefined && { human_readable: sentence };
    return JSON.stringify({ ok: true, type: tool.spec.declaredId, result: value, ...worded });
  }
  if (typeof value === 'string') return value;
  return isVoid(tool, live) ? '{"ok":true}' : JSON.stringify(value);
}

/** Returns the inline metadata of a call; undefined if it is not wanted. */
function metadataOf({ tool, options, scope, startedAt }: ReadCall): JsonObject | undefined {
  if (options.metadata === 'none') return undefined;
  const now = new Date();
  return {
    duration_ms: now.getTime() - startedAt.getTime(),
    tool_name: tool.spec.id,
    timestamp: now.toISOString(),
    ...(scope.agentName !== undefined && { agent_name: scope.agentName }),
  };
}

/** The value with its metadata, where it is an object: a list or a scalar has no place for it. */
function withMetadata(value: JsonValue, metadata: JsonObject | undefined): JsonValue {
  return metadata && isJsonObject(value) ? { ...value, _execution_metadata: metadata } : value;
}

/**
 * A method that returns nothing, or of which nothing is shown, says so in a way a model
 * understands; `null` is an answer.
 */
function isVoid({ spec: { redaction } }: Tool, live: unknown): boolean {
  return redaction.kind === 'reveal' && (live === undefined || redaction.fields.length === 0);
}

/**
 * Thrown where a value could not be projected: nothing of it leaves, and a warning of the run says
 * where it failed.
 */
export class RedactionError extends Error {
  override readonly name = 'RedactionError';

  constructor(
    readonly audience: Audience,
    options: { readonly cause: unknown },
  ) {
    super(
      options.cause instanceof ProjectionError ? options.cause.message : 'the projection failed',
      options,
    );
  }

  /** Names what is declared, and nothing that is data. */
  warning({ tool: { spec }, request }: ReadCall): LoopEventBody {
    const { cause, audience } = this;
    const place =
      cause instanceof ProjectionError && cause.declaredPath !== ''
        ? ` at "${cause.declaredPath}"`
        : '';
    const message = `The result of ${spec.declaredId} could not be redacted for ${audience}${place}, so it is not shown.`;
    return { type: 'warning', step: request.step, code: 'redaction_failed', message };
  }
}

/**
 * Returns the projection of a value for one audience.
 *
 * @throws RedactionError if the value is not what the tool declared
 */
export function projected(
  { output }: Pick<Tool, 'output'>,
  value: unknown,
  audience: Audience,
): JsonValue {
  return redacted(audience, () => output.project(value, audience));
}

function bothProjections(
  { output }: Tool,
  live: unknown,
  observer: ProjectionObserver | undefined,
): BothProjections {
  return (
    output.projectBoth?.(live, observer) ?? {
      model: output.project(live, 'model', observer),
      ui: () => output.project(live, 'ui'),
    }
  );
}

function redacted<Shown>(audience: Audience, project: () => Shown): Shown {
  try {
    return project();
  } catch (cause) {
    throw new RedactionError(audience, { cause });
  }
}

/**
 * A result as its event holds it, with whether others may have written it. What a sub-run did was
 * told as it happened.
 */
export function shownResult({
  record,
  tool,
  labels = tool?.spec.labels,
}: ToolOutcome): ShownResult {
  const mark = labels?.returns === 'untrusted' &&
    (record.result ?? null) !== null && { isOfOthers: true as const };
  if (!record.subRun) return { record, ...mark };
  const { toolCalls: _told, ...subRun } = record.subRun;
  return { record: { ...record, subRun }, ...mark };
}
type ShownResult = Pick<LoopEventOf<'tool-result'>, 'record' | 'isOfOthers'>;
