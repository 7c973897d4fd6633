import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { ActorDirectory, ToolLoopModule } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import {
  MemoryCallJournal,
  MemoryPendingStore,
  MemoryRunLog,
  ToolLoopStores,
} from '@toolloop/core/stores';
import { RUN_OPTIONS, RunEngine, WakingPendingStore } from '@toolloop/durable';
import { TelemetryModule } from '@toolloop/telemetry';
import { collect, ScriptedModel, text } from '@toolloop/testing';
import { METRICS } from '../src/conventions.js';

const runs = new MemoryRunLog();
const pending = new WakingPendingStore(new MemoryPendingStore(), runs, (work) => work());
const stores: ToolLoopStores = { runs, pending, journal: new MemoryCallJournal() };

@Injectable()
class Staff extends ActorDirectory {
  override find(actorId: string): Promise<unknown> {
    return Promise.resolve({ id: actorId });
  }
}

const spans = new InMemorySpanExporter();
const tracers = new TracerProvider({
  spanProcessors: [new SimpleSpanProcessor({ exporter: spans })],
});
const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const meters = new MeterProvider({
  readers: [
    new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 3_600_000 }),
  ],
});

/**
 * One process over the runs that all share; with no concurrency it runs none that it did not open.
 */
async function process(concurrency: number): Promise<TestingModule> {
  @Module({
    providers: [
      { provide: ToolLoopStores, useValue: stores },
      { provide: RUN_OPTIONS, useValue: { concurrency } },
      RunEngine,
    ],
    exports: [ToolLoopStores],
  })
  class KeptRunsModule {}
  const module = await Test.createTestingModule({
    imports: [
      { module: KeptRunsModule, global: true },
      ToolLoopModule.forRoot({
        model: new ScriptedModel([text('Done.')], { perRun: true }),
        policy: { allow: [] },
      }),
      TelemetryModule.forRoot({ tracerProvider: tracers, meterProvider: meters }),
    ],
    providers: [Staff],
  }).compile();
  module.useLogger(false);
  await module.init();
  return module;
}

describe('a durable run that another process runs', () => {
  let asking: TestingModule;
  let working: TestingModule;
  let request: string;
  let run: ReadableSpan | undefined;

  beforeAll(async () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    asking = await process(0);
    const who = { actor: { id: 'alice' }, tenant: 'acme' };
    const [runId, spanId] = await tracers
      .getTracer('http')
      .startActiveSpan('POST /refunds', async (span) => {
        const id = await asking.get(RunService).start({ ...who, prompt: 'Refund o-1.' });
        span.end();
        return [id, span.spanContext().spanId] as const;
      });
    request = spanId;
    working = await process(1);
    await collect(working.get(RunService).read(runId, who));
    run = spans.getFinishedSpans().find(({ name }) => name === 'invoke_agent');
    await meters.forceFlush();
  });
  afterAll(async () => {
    await Promise.all([asking.close(), working.close()]);
    await Promise.all([tracers.shutdown(), meters.shutdown()]);
    context.disable();
  });

  it('links to the request that asked for it', () => {
    expect(run?.links.map((link) => link.context.spanId)).toEqual([request]);
    expect(run?.attributes).toMatchObject({ 'toolloop.finish_reason': 'stop' });
  });

  it('tells how long it waited for a process', () => {
    const metric = measured
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
      .find(({ descriptor }) => descriptor.name === METRICS.queueAge);
    expect(metric?.dataPoints.map(({ value }) => value)).toMatchObject([{ count: 1 }]);
    expect(metric?.dataPoints[0]?.attributes).toEqual({});
  });
});
