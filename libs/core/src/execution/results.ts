import { Injectable, Logger } from '@nestjs/common';
import {
  type Audience,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type RecordedAttachment,
  type ToolFailure,
} from '@toolloop/protocol';
import type { Attachment } from '../contracts/tool-call.js';
import type { ProjectionObserver, Tool } from '../contracts/tool.js';
import { isPermitted } from '../policy/policy-engine.js';
import { SchemaValidators } from '../schema/validators.js';
import { CallFailure, toJsonApi } from './call-failure.js';
import { type CallProgress, limitsOf } from './call.js';
import type { InvokedResult } from './invoke.js';
import { projected, RedactionError } from './progress.js';
import { cut, type Hinted, type ReadAttachments, readAttachments, readingOf, ResultPage, ShownObjects } from './result-pages.js';
import { RESULT_READER } from './result-reader.js';

/** A result as its two readers see it. */
export interface DescribedResult {
  /** For the model; text, or JSON as text. */
  readonly content: string;
  /** The same for whoever reads it in another run, where no handle holds. */
  readonly lasting: string;
  readonly ui: JsonValue;
  /** Bytes of the model's projection before it was cut. */
  readonly bytes: number;
  readonly truncated: boolean;
  /** Absent where there are none. */
  readonly attachments?: readonly RecordedAttachment[];
  /** Set where the model may be told what can be called on the entities in it. */
  readonly hinted?: Hinted;
}

/** Stage 8: checks a result against what the tool declares, projects it for model and ui, and cuts it to its byte budget. */
@Injectable()
export class ResultDescriber {
  private readonly logger = new Logger(ResultDescriber.name);

  constructor(private readonly validators: SchemaValidators) {}

  /** @throws `invalid_output`; what is wrong with the result is in the log, for the developer. Whether the tool had an effect is not known here. */
  describe(tool: Tool, { live: returned, result: live, attachments }: InvokedResult, progress: CallProgress): DescribedResult {
    const { resultBytes: mostBytes } = limitsOf(progress);
    if (returned instanceof ResultPage) return describedPage(tool, returned, progress);
    const objects = progress.options.availableOperations ? new ShownObjects() : undefined;
    const shown = this.project(tool, live, { audience: 'model', observer: objects?.observe }, progress);
    const model = withoutSecrets(shown, progress);
    this.assertDeclared(tool, model);
    const metadata = metadataOf(tool, progress);
    const ui = withMetadata(withoutSecrets(this.project(tool, live, { audience: 'ui' }, progress), progress), metadata);
    const sentence = this.sentenceFor(tool, model, progress);
    const attached = attachments.length > 0 ? this.attached(tool, attachments, progress) : undefined;
    const word = (value: JsonValue): string => {
      const worded = resultText(tool, { live, value: withMetadata(value, metadata), sentence }, progress);
      return attached?.note === undefined ? worded : `${worded}\n${attached.note}`;
    };
    const described = shortened(tool, word(model), mostBytes, progress);
    const hinted = described.truncated ? undefined : objects?.hinted(() => word(withoutSecrets(shown, progress)), mostBytes);
    const uiText = JSON.stringify(ui);
    return {
      ...described,
      ...(hinted && { hinted }),
      ui: Buffer.byteLength(uiText) > mostBytes ? cut(uiText, mostBytes) : ui,
      ...(attached && { attachments: attached.kept }),
    };
  }

  private assertDeclared(tool: Tool, model: JsonValue): void {
    const problems = tool.spec.outputSchema ? this.validators.validate(tool.spec.outputSchema, model) : [];
    if (problems.length > 0)
      throw this.invalid(tool, problems.map(({ pointer, message }) => `${pointer || 'result'} ${message}`).join('; '));
  }

  private attached(tool: Tool, attachments: readonly Attachment[], { scope }: CallProgress): ReadAttachments {
    const attached = readAttachments(attachments, scope.limits.attachmentBytes);
    if (attached.note !== undefined) this.logger.warn(`${tool.spec.declaredId} (run ${scope.run.runId}): ${attached.note}`);
    return attached;
  }

  /** The tool has done its work: that it cannot word it is no failure of the call. */
  private sentenceFor(tool: Tool, model: JsonValue, { options, scope }: CallProgress): string | undefined {
    if (options.resultFormat === 'value') return undefined;
    try {
      return tool.humanReadable?.(model);
    } catch (error) {
      this.logger.warn(`The result of ${tool.spec.declaredId} could not be put into words (run ${scope.run.runId}).`, error);
      return undefined;
    }
  }

  private project(
    tool: Tool,
    live: unknown,
    { audience, observer }: { readonly audience: Audience; readonly observer?: ProjectionObserver | undefined },
    { credentials }: CallProgress,
  ): JsonValue {
    try {
      return projected(tool, live, audience, observer);
    } catch (error) {
      throw this.invalid(tool, error instanceof RedactionError ? error.message : 'the projection failed', { error, credentials });
    }
  }

  private invalid(
    tool: Tool,
    reason: string,
    failed?: { readonly error: unknown; readonly credentials: CallProgress['credentials'] },
  ): CallFailure {
    const { error, credentials } = failed ?? {};
    const cause = error instanceof RedactionError ? error.cause : error;
    this.logger.error(
      `The result of ${tool.spec.declaredId} does not match its declaration: ${reason}`,
      credentials?.error(cause) ?? cause,
    );
    return new CallFailure({ code: 'invalid_output', safeMessage: 'The tool ran, but its result cannot be shown.' }, { cause: error });
  }
}

/** Of a call that was handed credentials a copy that tells none of them. */
function withoutSecrets(value: JsonValue, { credentials }: CallProgress): JsonValue {
  return credentials?.json(value) ?? value;
}

/** What of a result's text fits, and where there is more the way to it. */
function shortened(
  tool: Tool,
  text: string,
  mostBytes: number,
  { scope }: CallProgress,
): Pick<DescribedResult, 'content' | 'lasting' | 'bytes' | 'truncated'> {
  const bytes = Buffer.byteLength(text);
  if (bytes <= mostBytes) return { content: text, lasting: text, bytes, truncated: false };
  const lasting = cut(text, mostBytes);
  const isReadable = mostBytes >= LEAST_PAGE_BYTES && scope.pages !== undefined && isPermitted(RESULT_READER, scope);
  const handle = isReadable ? scope.pages?.keep(tool.spec.declaredId, text) : undefined;
  if (handle === undefined) return { content: lasting, lasting, bytes, truncated: true };
  const content = cut(
    text,
    mostBytes,
    (all, shown) => `\n[… ${all} bytes in all; the middle was left out. Read on: ${readingOf(handle, shown)} …]\n`,
  );
  return { content, lasting, bytes, truncated: true };
}

/** A smaller page would be little but its note. */
const LEAST_PAGE_BYTES = 256;

/** A page is text of the model's own projection, which was checked and projected before. */
function describedPage(tool: Tool, page: ResultPage, progress: CallProgress): DescribedResult {
  const { resultBytes } = limitsOf(progress);
  const content = page.fitted(resultBytes, (value) => resultText(tool, { live: page, value, sentence: undefined }, progress));
  return { content, lasting: content, ui: page.facts, bytes: Buffer.byteLength(content), truncated: false };
}

/** As much of a name that a model made up as is said back to it. */
const MOST_OF_A_NAME = 64;

/** A result on its way to the model. */
export interface ShownValue {
  readonly live: unknown;
  /** The model's projection. */
  readonly value: JsonValue;
  /** The result in a sentence, where the tool words it. */
  readonly sentence: string | undefined;
}

/** What the model reads of a result: the value or the envelope, as JSON; text stands for itself. */
export function resultText(tool: Tool, { live, value, sentence }: ShownValue, { options }: CallProgress): string {
  if (options.resultFormat === 'envelope') {
    const worded = sentence !== undefined && { human_readable: sentence };
    return JSON.stringify({ ok: true, type: tool.spec.declaredId, result: value, ...worded });
  }
  if (typeof value === 'string') return value;
  return isVoid(tool, live) ? '{"ok":true}' : JSON.stringify(value);
}

/** What the model reads of a failure. A tool that policy denies reads like one that does not exist, its type included. */
export function failureText({ request, tool, options }: CallProgress, failure: ToolFailure): string {
  const shownAs = failure.code === 'policy_denied' ? 'unknown_tool' : failure.code;
  const { errors } = toJsonApi(failure, shownAs);
  if (options.resultFormat === 'value') return JSON.stringify({ errors });
  const known = shownAs === 'unknown_tool' ? undefined : tool?.spec.declaredId;
  return JSON.stringify({ ok: false, type: known ?? request.call.name.slice(0, MOST_OF_A_NAME), errors });
}

/** What inline metadata says of a call; undefined where none is wanted. */
export function metadataOf(tool: Tool, { options, scope, startedAt }: CallProgress): JsonObject | undefined {
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
export function withMetadata(value: JsonValue, metadata: JsonObject | undefined): JsonValue {
  return metadata && isJsonObject(value) ? { ...value, _execution_metadata: metadata } : value;
}

/** A method that returns nothing, or of which nothing is shown, says so in a way a model understands; `null` is an answer. */
function isVoid({ spec: { redaction } }: Tool, live: unknown): boolean {
  return redaction.kind === 'reveal' && (live === undefined || redaction.fields.length === 0);
}
