import {
  type Attributes,
  type Context,
  context,
  type Link,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import {
  type AnsweredQuestion,
  type CallOutcome,
  type ModelQuestion,
  type Next,
  type OpenedCall,
  type Plugin,
  type RunEnd,
  type RunView,
  schemaOf,
  slot,
  ToolLoopPlugin,
} from '@toolloop/core/plugin';
import { ModelError, type ModelRequest, type ToolInvocationRecord } from '@toolloop/protocol';
import { ERROR_TYPE, GEN_AI, TOOLLOOP } from './conventions.js';
import type { LoopMetrics } from './loop-metrics.js';
import type { SpanContent } from './span-content.js';

/** The trace context of a run, to which its next part links. */
const TRACE = slot({
  name: 'telemetry/trace',
  version: 1,
  schema: schemaOf((value): value is string | null => value === null || typeof value === 'string'),
  initial: (): string | null => null,
  inherit: 'fresh',
  ifUnreadable: 'initial',
});

/**
 * The spans of runs (`invoke_agent`), of questions to models (`chat`) and of calls of tools
 * (`execute_tool`), each the active span of what happens within it: the spans of databases and of
 * HTTP requests that a tool makes are its children. A part of a run that is resumed links to the
 * part before it, and a run that another process asked for to that request.
 */
@ToolLoopPlugin({ name: 'telemetry', slots: [TRACE] })
export class LoopInstrumentation implements Plugin {
  constructor(
    private readonly tracer: Tracer,
    private readonly metrics: LoopMetrics,
    private readonly content: SpanContent,
  ) {}

  aroundRun(run: RunView, next: Next<RunEnd>): Promise<unknown> {
    const { loop, askedFrom, queuedMs } = run.facts;
    const links = linksTo(run.get(TRACE) ?? askedFrom ?? '');
    const name = loop === undefined ? 'invoke_agent' : `invoke_agent ${loop}`;
    if (queuedMs !== undefined) this.metrics.queued(run, queuedMs);
    const options = { kind: SpanKind.INTERNAL, attributes: runAttributes(run), links };
    const traced = (): Promise<RunEnd> => {
      run.set(TRACE, () => this.traceContext() ?? null);
      return next();
    };
    return this.within(name, options, traced, (end, span, seconds) => {
      this.metrics.runEnded(run, end ?? {}, seconds);
      if (!end) return;
      const { finish, usage, step } = end;
      span.setAttributes({
        [TOOLLOOP.steps]: step,
        [GEN_AI.inputTokens]: usage.inputTokens,
        [GEN_AI.outputTokens]: usage.outputTokens,
        ...(usage.costUsd !== undefined && { [TOOLLOOP.costUsd]: usage.costUsd }),
        ...(finish && { [TOOLLOOP.finishReason]: finish.reason }),
      });
      if (finish?.error) fail(span, finish.error.code);
    });
  }

  aroundModel(
    question: ModelQuestion,
    next: Next<AnsweredQuestion>,
    run: RunView,
  ): Promise<unknown> {
    const attributes = {
      [GEN_AI.operation]: 'chat',
      [GEN_AI.provider]: question.provider,
      [GEN_AI.requestModel]: question.modelId,
    };
    return this.within(
      `chat ${question.modelId}`,
      { kind: SpanKind.CLIENT, attributes },
      next,
      (asked, span, seconds) => {
        const errorType = asked?.failure === undefined ? undefined : typeOf(asked.failure);
        const { provider, modelId } = question;
        this.metrics.answered(
          { provider, modelId, tenant: run.tenant },
          asked?.answer,
          errorType,
          seconds,
        );
        if (errorType !== undefined) fail(span, errorType);
        if (!span.isRecording()) return;
        const told = requestAttributes(question, run);
        this.content.addRequest(told, question.request);
        if (asked) addAnswer(told, asked);
        if (asked) this.content.addAnswer(told, asked.answer);
        span.setAttributes(told);
      },
    );
  }

  aroundCall(call: OpenedCall, next: Next<CallOutcome>): Promise<unknown> {
    return this.within('execute_tool', {}, next, (outcome, span, seconds) => {
      if (!outcome) return;
      const { record, isPending } = outcome;
      if (!isPending) this.metrics.called(call.run, record, seconds);
      if (!span.isRecording()) return;
      const { declaredId = 'unknown', error } = record;
      span.updateName(`execute_tool ${declaredId}`);
      const told = callAttributes(call, record);
      this.content.addRecord(told, record);
      span.setAttributes(told);
      if (error) fail(span, error.code);
    });
  }

  traceContext(): string | undefined {
    const now = trace.getActiveSpan()?.spanContext();
    return now && `00-${now.traceId}-${now.spanId}-${now.traceFlags.toString(16).padStart(2, '0')}`;
  }

  /**
   * Runs work within a span, and ends the span with it. Without a result the work has failed, which
   * the loop itself never does.
   */
  private async within<Result>(
    name: string,
    options: SpanOptions,
    work: () => Promise<Result>,
    ended: (result: Result | undefined, span: Span, seconds: number) => void,
  ): Promise<Result> {
    const around = context.active(); // looked up once: the tracer would do so again
    const span = this.tracer.startSpan(name, options, around);
    const startedAt = performance.now();
    let result: Result | undefined;
    try {
      result = await context.with(trace.setSpan(new Layer(around), span), work);
      return result;
    } catch (error) {
      fail(span, typeOf(error));
      throw error;
    } finally {
      ended(result, span, (performance.now() - startedAt) / 1000);
      span.end();
    }
  }
}

/**
 * A value over another context. That of the API copies the values below it into a map of its own,
 * which was a good part of the memory that a span took here; contexts of runs are a few values
 * high.
 */
class Layer implements Context {
  constructor(
    private readonly below: Context,
    private readonly key?: symbol,
    private readonly value?: unknown,
  ) {}

  getValue(key: symbol): unknown {
    return key === this.key ? this.value : this.below.getValue(key);
  }

  setValue(key: symbol, value: unknown): Context {
    return new Layer(this.key === undefined ? this.below : this, key, value);
  }

  deleteValue(key: symbol): Context {
    return this.setValue(key, undefined);
  }
}

function fail(span: Span, errorType: string): void {
  span.setAttribute(ERROR_TYPE, errorType).setStatus({ code: SpanStatusCode.ERROR });
}

/** The low-cardinality name of an error. Its message may hold anything, so it is not told. */
function typeOf(error: unknown): string {
  if (error instanceof ModelError) return error.code;
  return error instanceof Error ? error.name : 'unknown';
}

/** https://www.w3.org/TR/trace-context/#traceparent-header-field-values */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

function linksTo(traceparent: string): Link[] {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return [];
  return [{ context: { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true } }];
}

function runAttributes({ runId, tenant, facts }: RunView): Attributes {
  const { requestId, actorId, loop, conversationId } = facts;
  return {
    [GEN_AI.operation]: 'invoke_agent',
    [TOOLLOOP.run]: runId,
    [TOOLLOOP.request]: requestId,
    [TOOLLOOP.tenant]: tenant,
    ...(actorId !== undefined && { [TOOLLOOP.actor]: actorId }),
    ...(loop !== undefined && { [GEN_AI.agent]: loop }),
    ...(conversationId !== undefined && { [GEN_AI.conversation]: conversationId }),
  };
}

/**
 * The attributes are put together in one object: to spread and to set them part by part took a
 * third of the time of a span.
 */
function requestAttributes({ step, request }: ModelQuestion, { runId }: RunView): Attributes {
  const told: Attributes = {
    [GEN_AI.isStreamed]: true,
    [TOOLLOOP.run]: runId,
    [TOOLLOOP.step]: step,
  };
  if (request.answerFormat) told[GEN_AI.outputType] = 'json';
  if (request.options) addOptions(told, request.options);
  return told;
}

function addOptions(told: Attributes, options: NonNullable<ModelRequest['options']>): void {
  const { maxOutputTokens, temperature, topP, seed, stopSequences } = options;
  put(told, GEN_AI.maxTokens, maxOutputTokens);
  put(told, GEN_AI.temperature, temperature);
  put(told, GEN_AI.topP, topP);
  put(told, GEN_AI.seed, seed);
  if (stopSequences) told[GEN_AI.stopSequences] = [...stopSequences];
}

function addAnswer(
  told: Attributes,
  { answer: { usage, finishReason, response, answeredBy } }: AnsweredQuestion,
): void {
  told[GEN_AI.finishReasons] = [finishReason];
  told[GEN_AI.inputTokens] = usage.inputTokens;
  told[GEN_AI.outputTokens] = usage.outputTokens;
  put(told, GEN_AI.cacheReadTokens, usage.cachedInputTokens);
  put(told, GEN_AI.cacheCreationTokens, usage.cacheWriteInputTokens);
  put(told, TOOLLOOP.costUsd, usage.costUsd);
  put(told, GEN_AI.responseId, response?.id);
  put(told, GEN_AI.responseModel, response?.model ?? answeredBy);
}

function callAttributes({ request, run }: OpenedCall, record: ToolInvocationRecord): Attributes {
  const { declaredId = 'unknown', status, effect, attempt } = record;
  const told: Attributes = {
    [GEN_AI.operation]: 'execute_tool',
    [GEN_AI.tool]: declaredId,
    [TOOLLOOP.status]: status,
    [GEN_AI.toolCallId]: request.call.toolCallId,
    [GEN_AI.toolType]: 'function',
    [TOOLLOOP.run]: run.runId,
    [TOOLLOOP.step]: request.step,
  };
  put(told, TOOLLOOP.effect, effect);
  if (attempt > 1) told[TOOLLOOP.attempt] = attempt;
  return told;
}

function put(told: Attributes, name: string, value: string | number | undefined): void {
  if (value !== undefined) told[name] = value;
}
