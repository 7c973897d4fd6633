import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { median } from '../sampling.js';
import type { ContenderName } from './slice.js';

const run = promisify(execFile);
const NEST = ['reflect-metadata', '@nestjs/common', '@nestjs/core'];
const OWN = ['@toolloop/core', '@toolloop/openai', ...NEST];

/** The modules that an application with a contender imports. */
const IMPORTED: Readonly<Record<ContenderName, readonly string[]>> = {
  floor: ['node:http'],
  toolloop: OWN,
  bare: OWN,
  openai: ['openai'],
  'openai-run-tools': ['openai'],
  'tanstack-ai': ['@tanstack/ai', '@tanstack/ai-openai'],
  'ai-sdk': ['ai', '@ai-sdk/openai-compatible'],
  'openai-agents': ['@openai/agents'],
  langchain: ['langchain', '@langchain/openai'],
  langgraph: ['@langchain/langgraph', '@langchain/langgraph/prebuilt', '@langchain/openai'],
  mastra: ['@mastra/core/agent', '@mastra/core/tools'],
};

/** Milliseconds of CPU that imports take in fresh processes. */
export interface ImportCost {
  readonly alone: number;
  /** The same with Nest in the same application. */
  readonly besideNest: number;
}

/**
 * Measures what the imports of each contender cost, in processes of their own, one after the other
 * in rounds.
 */
export async function importCosts(
  names: readonly ContenderName[],
  rounds: number,
): Promise<{ readonly costs: ReadonlyMap<ContenderName, ImportCost>; readonly wireAlone: number }> {
  const samples = new Map<string, number[]>();
  const take = async (key: string, modules: readonly string[]): Promise<void> => {
    samples.set(key, [...(samples.get(key) ?? []), await importOnce(modules)]);
  };
  for (let round = 0; round < rounds; round += 1) {
    await take('wire', ['@toolloop/openai', '@toolloop/protocol']);
    for (const name of names) {
      await take(name, IMPORTED[name]);
      await take(`${name} beside Nest`, [...IMPORTED[name], ...NEST]);
    }
  }
  const cost = (key: string): number => median(samples.get(key) ?? []);
  return {
    costs: new Map(
      names.map((name) => [name, { alone: cost(name), besideNest: cost(`${name} beside Nest`) }]),
    ),
    wireAlone: cost('wire'),
  };
}

/**
 * The packages of Toolloop as they are published, and the peers. Both find what they need in
 * folders above: the tools of releases have an RxJS of their own.
 */
const STAGED = fileURLToPath(new URL('../../staged', import.meta.url));
const PEERS = fileURLToPath(new URL('../../peers', import.meta.url));

/** Returns the CPU time of imports in milliseconds, without that of Node's own start. */
async function importOnce(modules: readonly string[]): Promise<number> {
  const script = `
    const { user, system } = process.cpuUsage();
    for (const name of ${JSON.stringify(modules)}) await import(name);
    const after = process.cpuUsage();
    console.log((after.user + after.system - user - system) / 1000);
    process.exit();`;
  const cwd = modules.some((name) => name.startsWith('@toolloop/')) ? STAGED : PEERS;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script], {
    cwd,
  });
  return Number(stdout.trim());
}
