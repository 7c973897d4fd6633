import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Logger, type LoggerService } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  InMemorySpanExporter,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { LlmTool, ToolLoopModule, ToolLoopService, ToolProvider } from '@toolloop/core';
import { mcpTracing, TelemetryModule, type TelemetryOptions } from '@toolloop/telemetry';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';

@ToolProvider({ namespace: 'orders' })
class OrderTools {
  @LlmTool({ description: 'Finds.', effect: 'read_only', reveal: 'all' })
  find(): string {
    return 'a secret of Ann';
  }

  @LlmTool({ description: 'Breaks.', effect: 'read_only', reveal: 'all' })
  break(): never {
    throw new Error('the password is hunter2');
  }
}

type Told = readonly [level: string, message: unknown, context: unknown];

/** The loggers of a test are silent unless it has one of its own. */
class Lines implements LoggerService {
  readonly told: Told[] = [];
  readonly log = (message: unknown, from?: unknown): void =>
    void this.told.push(['log', message, from]);
  readonly warn = (message: unknown, from?: unknown): void =>
    void this.told.push(['warn', message, from]);
  readonly error = (message: unknown, from?: unknown): void =>
    void this.told.push(['error', message, from]);
  readonly debug = (message: unknown, from?: unknown): void =>
    void this.told.push(['debug', message, from]);

  of(from: string): readonly Told[] {
    return this.told.filter(([, , one]) => one === from);
  }
}

const tracers = new TracerProvider({
  spanProcessors: [new SimpleSpanProcessor({ exporter: new InMemorySpanExporter() })],
});

/** Runs once under these options, and returns what was logged. */
async function logged(
  options: TelemetryOptions,
): Promise<{ readonly lines: Lines; readonly runId: string }> {
  const model = new ScriptedModel([
    calls(call('orders__find'), call('orders__break'), call('invented by the model')),
    text('Done.'),
  ]);
  const lines = new Lines();
  const app: TestingModule = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model, policy: { allow: ['*'], flow: 'off' } }),
      TelemetryModule.forRoot({ tracerProvider: tracers, ...options }),
    ],
    providers: [OrderTools],
  }).compile();
  Logger.overrideLogger(lines);
  try {
    await app.init();
    const { runId } = await app
      .get(ToolLoopService)
      .run({ prompt: 'Find the order of Ann.', actor: { id: 'alice' }, tenant: 'acme' });
    return { lines, runId };
  } finally {
    await app.close();
    Logger.overrideLogger(false);
  }
}

function redact(one: string): string {
  throw new TypeError(`cannot redact ${one}`);
}

function activeTrace(): string | undefined {
  return trace.getSpanContext(context.active())?.traceId;
}

describe('the lines about a run', () => {
  it('have the ids of the run, the step and the call, and no text of people, models or tools', async () => {
    const { lines, runId } = await logged({ logs: 'text' });
    const told = lines.of('ToolLoop').map(
      ([level, message]) =>
        `${level} ${String(message)
          .replaceAll(runId, 'RUN')
          .replaceAll(/\d+ ms/g, 'N ms')
          .replaceAll(/reference [\w-]+/g, 'reference R')}`,
    );
    expect(told.toSorted()).toEqual(
      [
        'log The run begins. (run RUN)',
        'log orders__find succeeded in N ms. (run RUN, step 1, call call_1)',
        'warn orders__break failed with execution_failed in N ms, reference R. (run RUN, step 1, call call_2)',
        'warn An unknown tool failed with unknown_tool in N ms. (run RUN, step 1, call call_3)',
        'log The run ended with stop after 2 steps, 30 tokens. (run RUN)',
      ].toSorted(),
    );
    expect(JSON.stringify(lines.of('ToolLoop'))).not.toMatch(/Ann|hunter2|invented/);
  });

  it('are objects for a logger that writes JSON', async () => {
    const { lines, runId } = await logged({ logs: 'object' });
    const all = lines.of('ToolLoop').map(([, message]) => message);
    expect(all).toContainEqual(
      expect.objectContaining({
        runId,
        tenant: 'acme',
        step: 1,
        toolCallId: 'call_1',
        tool: 'orders__find',
        status: 'succeeded',
      }),
    );
    expect(all).toContainEqual(
      expect.objectContaining({
        runId,
        finishReason: 'stop',
        steps: 2,
        inputTokens: 20,
        outputTokens: 10,
      }),
    );
  });

  it('are not written unless the application asks for them', async () => {
    expect((await logged({})).lines.of('ToolLoop')).toEqual([]);
  });
});

describe('a redaction that fails', () => {
  it('is told once of each part, without what it would have hidden', async () => {
    const { lines } = await logged({ content: { redact } });
    const told = lines.of('Telemetry');
    expect(told.map(([level, message]) => [level, String(message).slice(0, 43)])).toEqual([
      ['warn', 'content.redact failed for "messages" (TypeE'],
      ['warn', 'content.redact failed for "answer" (TypeErr'],
      ['warn', 'content.redact failed for "arguments" (Type'],
      ['warn', 'content.redact failed for "result" (TypeErr'],
    ]);
    expect(JSON.stringify(told)).not.toMatch(/Ann|cannot redact/);
  });
});

describe('the trace of a call over MCP', () => {
  beforeAll(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  });
  afterAll(() => {
    context.disable();
    propagation.disable();
  });

  const tracer = tracers.getTracer('spec');

  it('goes out with the fields of the present span, and comes in as the trace of the work', () => {
    const [fields, traceId] = tracer.startActiveSpan(
      'call',
      (span) => [mcpTracing.outgoing(), span.spanContext().traceId] as const,
    );
    expect(fields).toEqual({ traceparent: expect.stringContaining(traceId) });
    expect(mcpTracing.outgoing()).toEqual({});
    expect(mcpTracing.incoming({ ...fields, other: 1 }, activeTrace)).toBe(traceId);
    expect(mcpTracing.incoming({}, activeTrace)).toBeUndefined();
  });

  it('is left as it is where HTTP has continued it already, and where its fields are none', () => {
    tracer.startActiveSpan('http', (span) => {
      const { traceId, spanId } = span.spanContext();
      const within = mcpTracing.incoming(
        { traceparent: `00-${traceId}-b7ad6b7169203331-01` },
        () => trace.getActiveSpan()?.spanContext().spanId,
      );
      expect(within).toBe(spanId);
      expect(mcpTracing.incoming({ traceparent: 'forged', tracestate: 7 }, activeTrace)).toBe(
        traceId,
      );
    });
  });
});
