import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { type Table, toTextTable } from '../report.js';
import { median, spread } from '../sampling.js';
import { importCosts, type ImportCost } from './imports.js';
import { type Effort, race, type Sample } from './race.js';
import type { Scenario } from './scenarios.js';
import { CONTENDERS, type ContenderName } from './slice.js';

/**
 * Measures Toolloop beside other frameworks, each in a process of its own and fed by a provider in
 * another, and writes the table into the README of the benchmarks. `--only NAME` measures some
 * contenders, and `--quick` for a look: neither writes.
 */
const { values: settings } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, only: { type: 'string', multiple: true } },
});
const EFFORT: Effort = settings.quick
  ? { rounds: 3, warmUpMs: 800, sliceMs: 80 }
  : { rounds: 7, warmUpMs: 8000, sliceMs: 250 };
const README = new URL('../../README.md', import.meta.url);

const all = Object.keys(CONTENDERS).filter((name): name is ContenderName => name in CONTENDERS);
const names = all.filter(
  (name) => name === 'floor' || name === 'toolloop' || (settings.only?.includes(name) ?? true),
);
const { results, failed } = await race(names, EFFORT);
const running = names.filter((name) => !failed.has(name));
const imports = await importCosts(running, settings.quick ? 3 : 7);
const text = [
  `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}; ${EFFORT.rounds} rounds, ${EFFORT.warmUpMs} ms of CPU to warm up.`,
  toTextTable(ratioTable()),
  toTextTable(latencyTable()),
  toTextTable(importTable(imports.costs)),
  `The wire and the protocol alone, without Nest: ${imports.wireAlone.toFixed(0)} ms.`,
  ...[...failed].map(([name, why]) => `Not measured: ${CONTENDERS[name]}: ${why}`),
].join('\n\n');
console.log(text);
if (!settings.quick && settings.only === undefined) write(text);

/** Replaces the table in the README. */
function write(table: string): void {
  const before = readFileSync(README, 'utf8');
  const block = `<!-- peers -->\n\n\`\`\`text\n${table}\n\`\`\`\n\n<!-- /peers -->`;
  const after = before.replace(/<!-- peers -->[^]*<!-- \/peers -->/, () => block);
  if (after === before)
    console.error(
      'The README of the benchmarks has no place for the table: <!-- peers --> … <!-- /peers -->.',
    );
  else writeFileSync(README, after);
}

function ratioTable(): Table {
  return {
    title: '',
    columns: [
      { key: 'driver', title: 'CPU, × floor' },
      { key: 'steps', title: 'per model call' },
      { key: 'chunk', title: 'per chunk' },
      { key: 'long', title: '200 steps' },
      { key: 'wide', title: '1,000 tools' },
      { key: 'crowd', title: '200 at once' },
      { key: 'rate', title: 'runs/s, × floor' },
      { key: 'pause', title: 'longest pause, ms', digits: 0 },
      { key: 'resident', title: 'RSS, MB', digits: 0 },
      { key: 'secure', title: 'per call, TLS' },
      { key: 'spread', title: '± %', digits: 0 },
    ],
    rows: running.map((name) => ({
      driver: CONTENDERS[name],
      steps: ratio('steps', name),
      chunk: perChunk(name, ({ perRun }) => perRun) / perChunk(name, ({ floor }) => floor),
      long: ratio('long', name),
      wide: ratio('wide', name),
      crowd: ratio('crowd', name),
      rate:
        1 / median(samplesOf('crowd', name).map(({ perRun, floor }) => perRun.wall / floor.wall)),
      pause: median(samplesOf('crowd', name).map(({ longestPause }) => longestPause)),
      resident: median(samplesOf('crowd', name).map(({ residentBytes }) => residentBytes / 1e6)),
      secure: ratio('secure', name),
      spread: spread(samplesOf('steps', name).map(({ perRun, floor }) => perRun.cpu / floor.cpu)),
    })),
  };
}

function latencyTable(): Table {
  return {
    title: '',
    columns: [
      { key: 'driver', title: 'µs by the clock' },
      { key: 'first', title: 'run to first request', digits: 0 },
      { key: 'tool', title: 'last byte to tool', digits: 0 },
      { key: 'next', title: 'tool to next request', digits: 0 },
      { key: 'call', title: 'CPU of a model call', digits: 0 },
    ],
    rows: running.map((name) => ({
      driver: CONTENDERS[name],
      first: latency(name, 'toFirstRequest'),
      tool: latency(name, 'toTool'),
      next: latency(name, 'toNextRequest'),
      call: median(samplesOf('steps', name).map(({ perRun }) => perRun.cpu / 10)),
    })),
  };
}

function latency(name: ContenderName, key: keyof NonNullable<Sample['latency']>): number {
  return median(samplesOf('steps', name).flatMap((sample) => sample.latency?.[key] ?? []));
}

function importTable(costs: ReadonlyMap<ContenderName, ImportCost>): Table {
  return {
    title: '',
    columns: [
      { key: 'driver', title: 'ms of CPU to import' },
      { key: 'alone', title: 'as it is used', digits: 0 },
      { key: 'beside', title: 'beside Nest', digits: 0 },
    ],
    rows: running.map((name) => ({
      driver: CONTENDERS[name],
      alone: costs.get(name)?.alone ?? Number.NaN,
      beside: costs.get(name)?.besideNest ?? Number.NaN,
    })),
  };
}

function samplesOf(scenario: Scenario['name'], name: ContenderName): readonly Sample[] {
  return results.get(scenario)?.get(name) ?? [];
}

function ratio(scenario: Scenario['name'], name: ContenderName): number {
  return median(samplesOf(scenario, name).map(({ perRun, floor }) => perRun.cpu / floor.cpu));
}

/** The CPU that 2,000 chunks take beyond 500, in microseconds per chunk. */
function perChunk(
  name: ContenderName,
  which: (sample: Sample) => { readonly cpu: number },
): number {
  const cpu = (scenario: Scenario['name']): number =>
    median(samplesOf(scenario, name).map((sample) => which(sample).cpu));
  return (cpu('many') - cpu('few')) / 1500;
}
