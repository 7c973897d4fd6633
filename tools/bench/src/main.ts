import 'reflect-metadata';
import { cpus, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { buildingSuite } from './building.suite.js';
import { catalogSuite } from './catalog.suite.js';
import { decodingSuite } from './decoding.suite.js';
import { durableSuite } from './durable.suite.js';
import { growthSuite } from './growth.suite.js';
import { loopSuite } from './loop.suite.js';
import { mcpSuite } from './mcp.suite.js';
import { memorySuite } from './memory.suite.js';
import { pipelineSuite } from './pipeline.suite.js';
import { pressureSuite } from './pressure.suite.js';
import { isMet, toText, type Section, type Suite } from './report.js';
import { resourcesSuite } from './resources.suite.js';
import { searchSuite } from './search.suite.js';
import { stopsSuite } from './stops.suite.js';
import { surfacesSuite } from './surfaces.suite.js';
import { telemetrySuite } from './telemetry.suite.js';

const SUITES: readonly Suite[] = [
  pipelineSuite,
  buildingSuite,
  catalogSuite,
  loopSuite,
  growthSuite,
  memorySuite,
  surfacesSuite,
  searchSuite,
  durableSuite,
  resourcesSuite,
  decodingSuite,
  mcpSuite,
  pressureSuite,
  stopsSuite,
  telemetrySuite,
];

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, only: { type: 'string', multiple: true } },
});
const machine = {
  node: process.version,
  cpu: cpus()[0]?.model ?? 'unknown',
  cpus: cpus().length,
  memoryMb: Math.round(totalmem() / 2 ** 20),
};
const unknown = values.only?.find((wanted) => !SUITES.some(({ name }) => name === wanted));
if (unknown === undefined) await measure();
else {
  console.error(
    `There is no suite "${unknown}". Known: ${SUITES.map(({ name }) => name).join(', ')}.`,
  );
  process.exitCode = 1;
}

async function measure(): Promise<void> {
  const chosen = SUITES.filter(({ name }) => values.only?.includes(name) ?? true);
  if (values.json) await printJson(chosen);
  else await printText(chosen);
}

async function printText(suites: readonly Suite[]): Promise<void> {
  console.log(`Node ${machine.node}, ${machine.cpus} × ${machine.cpu}, ${machine.memoryMb} MB`);
  const missed: string[] = [];
  for (const suite of suites) {
    const before = performance.now();
    const section = await suite.run();
    missed.push(
      ...section.targets
        .filter((target) => !isMet(target))
        .map(({ what }) => `${suite.name}: ${what}`),
    );
    console.log(
      `${toText(suite.name, section)}\n(${((performance.now() - before) / 1000).toFixed(0)} s)`,
    );
  }
  console.log(
    missed.length === 0
      ? '\nEvery target holds.'
      : `\nMISSED, ${missed.length} in all:\n${missed.join('\n')}`,
  );
}

async function printJson(suites: readonly Suite[]): Promise<void> {
  const sections: Record<string, Section> = {};
  for (const suite of suites) {
    const section = await suite.run();
    sections[suite.name] = {
      ...section,
      targets: section.targets.map((target) => Object.assign({ met: isMet(target) }, target)),
    };
  }
  console.log(
    JSON.stringify({ machine, measuredAt: new Date().toISOString(), sections }, undefined, 2),
  );
}
