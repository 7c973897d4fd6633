import 'reflect-metadata';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import type { ToolLoopOptions } from '@toolloop/core';
import { TelemetryModule, type TelemetryOptions } from '@toolloop/telemetry';
import type { Surroundings } from '../application.js';
import { freshProviders } from '../building.tools.js';
import type { Driver } from '../drivers/driver.js';
import { floorDriver } from '../drivers/floor.driver.js';
import { openAiSdkDriver } from '../drivers/openai-sdk.driver.js';
import { loadPeer } from '../drivers/peers.js';
import { toolloopDrivers } from '../drivers/toolloop.driver.js';
import { rowsOf, sharedClock, TOOL_NAMES, type TaskTool, textOfTask, watchCalls } from '../task.js';
import type { Answer, DeclaredTool, Order, RunTimes, Slice, SliceReport } from './slice.js';

/**
 * One contender in a process of its own, so that none pays for another's garbage or profits from
 * another's warm code. Arguments: its name, and how many tools there are beside those of the task.
 * Toolloop tells its tools to the parent; all others are given the same.
 */
const [name = '', further = '0'] = process.argv.slice(2);
const DEFAULTS: Partial<ToolLoopOptions> = {
  policy: { allow: [], roles: { staff: { allow: ['*'] } } },
  audit: { key: 'a key of the benchmarks, which signs the entries of their audit' },
};
const OWN: Partial<Record<string, () => Surroundings>> = {
  toolloop: () => ({ options: DEFAULTS }),
  bare: () => ({ options: { policy: { allow: ['*'], flow: 'off' } } }),
  silent: () => ({ options: DEFAULTS, imports: [TelemetryModule.forRoot()] }),
  seen: () => ({ options: DEFAULTS, imports: [TelemetryModule.forRoot(openTelemetry())] }),
};

/**
 * OpenTelemetry as an application registers it, with an exporter whose cost is none: that of a real
 * one depends on where it sends.
 */
function openTelemetry(): Required<Pick<TelemetryOptions, 'tracerProvider' | 'meterProvider'>> {
  const exporter: SpanExporter = {
    export: (_spans, done) => done({ code: 0 }),
    shutdown: () => Promise.resolve(),
  };
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  return {
    tracerProvider: new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter })] }),
    meterProvider: new MeterProvider({
      readers: [new PrometheusExporter({ preventServerStart: true })],
    }),
  };
}

let driver: Driver | undefined;
let number = 0;

process.on('message', (order: Order) => {
  answer(order).then(tell, (error: unknown) =>
    tell({ type: 'failed', message: error instanceof Error ? (error.stack ?? '') : String(error) }),
  );
});
process.on('disconnect', () => process.exit());

function tell(message: Answer): void {
  process.send?.(message);
}

async function answer(order: Order): Promise<Answer> {
  if (order.type === 'slice') return { type: 'report', report: await measure(order) };
  const surroundings = OWN[name];
  const own = surroundings && (await toolloop(surroundings()));
  const tools = own?.tools ?? order.tools.map(executable);
  driver = own?.driver ?? (await other(tools));
  return {
    type: 'ready',
    tools: tools.map(({ name: id, description, parameters }) => ({
      name: id,
      description,
      parameters,
    })),
  };
}

async function toolloop(
  surroundings: Surroundings,
): Promise<{ readonly driver?: Driver; readonly tools: readonly TaskTool[] }> {
  const { drivers, tools } = await toolloopDrivers({
    ...surroundings,
    providers: freshProviders(Number(further), 'tools'),
  });
  const [first] = drivers;
  return { tools, ...(first && { driver: first }) };
}

function other(tools: readonly TaskTool[]): Driver | Promise<Driver> {
  if (name === 'floor') return floorDriver(tools);
  return name === 'openai' ? openAiSdkDriver(tools) : loadPeer(`${name}.mjs`, name, tools);
}

/** Only the tools of the task are ever called. */
function executable(tool: DeclaredTool): TaskTool {
  const kind = tool.name.replace(/^bench__/, '').slice(0, -1);
  return { ...tool, execute: (args) => rowsOf(kind, args) };
}

async function measure(slice: Slice): Promise<SliceReport> {
  const delays = monitorEventLoopDelay({ resolution: 1 });
  const runs: RunTimes[] = [];
  globalThis.gc?.({ type: 'minor', execution: 'sync' });
  if (slice.atOnce > 1) delays.enable();
  const cpuBefore = process.cpuUsage();
  const before = performance.now();
  await Promise.all(Array.from({ length: slice.atOnce }, () => work(slice, runs)));
  const wall = (performance.now() - before) * 1000;
  const { user, system } = process.cpuUsage(cpuBefore);
  delays.disable();
  return {
    cpu: user + system,
    wall,
    longestPause: delays.max / 1e6,
    residentBytes: process.memoryUsage.rss(),
    runs,
  };
}

/** One of the workers of a slice: takes the next run until all have begun. */
async function work(slice: Slice, runs: RunTimes[]): Promise<void> {
  while (runs.length < slice.runs) {
    const called: number[] = [];
    runs.push({ began: sharedClock(), called });
    if (slice.atOnce === 1) watchCalls(() => called.push(sharedClock()));
    await run(slice);
  }
  watchCalls(undefined);
}

/** One run, which must have done the task whole. */
async function run({ task, baseURL }: Slice): Promise<void> {
  number += 1;
  const numbered = { ...task, number };
  const outcome = await driver?.run(numbered, baseURL);
  if (outcome?.toolCalls === task.steps - 1 && outcome.text === textOfTask(numbered)) return;
  throw new Error(
    `${name} made ${outcome?.toolCalls} of ${task.steps - 1} calls of ${TOOL_NAMES.join(', ')} and said: ${outcome?.text.slice(0, 200)}`,
  );
}
