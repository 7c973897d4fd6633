import type { Server } from 'node:http';
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  type SpanExporter,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { Controller, type INestApplication, Post } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { IsOptional, IsString } from 'class-validator';
import {
  LlmTool,
  type LoopResult,
  type Policy,
  ToolField,
  ToolInput,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { type TelemetryOptions, TelemetryModule } from '@toolloop/telemetry';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';

class OrderInput {
  @ToolField({ description: 'The number of the order.' }) id!: string;
  @ToolField({ description: 'The card.' }) @IsOptional() @IsString() card?: string;
}

@ToolProvider({ namespace: 'orders' })
class OrderTools {
  @LlmTool({ description: 'Finds an order.', effect: 'read_only', reveal: 'all' })
  find(@ToolInput() { id }: OrderInput): { id: string; state: string } {
    // As an instrumented database would.
    trace.getTracer('database').startActiveSpan('select orders', (span) => span.end());
    return { id, state: 'open' };
  }

  @LlmTool({ description: 'Cancels an order.', effect: 'state_change', reveal: 'all' })
  cancel(@ToolInput() { id }: OrderInput): { id: string; state: string } {
    return { id, state: 'cancelled' };
  }

  @LlmTool({ description: 'Breaks.', effect: 'read_only', reveal: 'all' })
  break(): never {
    throw new Error('the password is hunter2');
  }

  @LlmTool({ description: 'Deletes an order.', effect: 'state_change', reveal: 'all' })
  remove(@ToolInput() _input: OrderInput): string {
    return 'removed';
  }
}

const POLICY: Policy = {
  version: 'v7',
  allow: ['orders__*'],
  deny: ['orders__remove'],
  flow: 'off',
  requireApproval: [{ tools: ['orders__cancel'], roles: ['support'] }],
};

@Controller()
class ChatController {
  constructor(private readonly loop: ToolLoopService) {}

  @Post('ask')
  ask(): Promise<LoopResult> {
    return this.loop.run({ prompt: 'Where is 7?', actor: { id: 'alice' }, tenant: 'acme' });
  }
}

/** An application that is traced and counted, as one with an SDK of OpenTelemetry is. */
export interface ObservedApp {
  readonly app: INestApplication<Server>;
  readonly loop: ToolLoopService;
  readonly meters: MeterProvider;
  readonly prometheus: PrometheusExporter;
  /** The spans that ended since the last time. */
  take(): readonly ReadableSpan[];
  close(): Promise<void>;
}

/** @param more receives every span as well */
export async function observe(
  options: Omit<TelemetryOptions, 'metrics'> = {},
  more?: SpanExporter,
): Promise<ObservedApp> {
  const spans = new InMemorySpanExporter();
  const processors = [
    new SimpleSpanProcessor({ exporter: spans }),
    ...(more ? [new SimpleSpanProcessor({ exporter: more })] : []),
  ];
  const tracers = new TracerProvider({ spanProcessors: processors });
  const prometheus = new PrometheusExporter({ preventServerStart: true });
  const meters = new MeterProvider({ readers: [prometheus] });
  trace.setGlobalTracerProvider(tracers);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const metrics = {
    exporter: prometheus,
    allow: (request: { headers: { authorization?: string | undefined } }) =>
      request.headers.authorization === 'Bearer scraper',
  };
  const model = new ScriptedModel(
    Array.from({ length: 40 }, () => [
      calls(call('orders__find', { id: '7' })),
      text('It is open.'),
    ]).flat(),
  );
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model, policy: POLICY }),
      ToolLoopModule.forFeature({ loops: { desk: {} } }),
      TelemetryModule.forRoot({ ...options, metrics, meterProvider: meters }),
    ],
    controllers: [ChatController],
    providers: [OrderTools],
  }).compile();
  const app = module.createNestApplication<INestApplication<Server>>({ logger: false });
  await app.init();
  return {
    app,
    loop: app.get(ToolLoopService),
    meters,
    prometheus,
    take: () => {
      const taken = [...spans.getFinishedSpans()];
      spans.reset();
      return taken;
    },
    close: async () => {
      await app.close();
      await tracers.shutdown();
      await meters.shutdown();
      trace.disable();
      context.disable();
      propagation.disable();
    },
  };
}

/** A span under its parent, by name: what ended, as a tree of text. */
export function treeOf(spans: readonly ReadableSpan[]): readonly string[] {
  const byId = new Map(spans.map((span) => [span.spanContext().spanId, span]));
  const nameOf = (span: ReadableSpan): string => {
    const parent = byId.get(span.parentSpanContext?.spanId ?? '');
    return parent ? `${nameOf(parent)} > ${span.name}` : span.name;
  };
  return spans.map(nameOf).toSorted();
}
