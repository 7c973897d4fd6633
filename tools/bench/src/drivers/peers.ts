import type { Skip } from '../report.js';
import type { TaskTool } from '../task.js';
import type { Driver } from './driver.js';
import { driverFrom } from './from-peer.js';

const PEERS = { 'AI SDK 7': 'ai-sdk.mjs', 'OpenAI Agents': 'openai-agents.mjs' };

/**
 * Other frameworks, where bench/peers is installed: it is a package of its own, so that the
 * project's `npm ci` stays small.
 */
export async function loadPeers(
  tools: readonly TaskTool[],
): Promise<{ readonly drivers: readonly Driver[]; readonly skipped: readonly Skip[] }> {
  const drivers: Driver[] = [];
  const skipped: Skip[] = [];
  for (const [name, file] of Object.entries(PEERS)) {
    try {
      drivers.push(await loadPeer(file, name, tools));
    } catch (error) {
      if (!isNotInstalled(error)) throw error;
      skipped.push({ what: name, why: 'not installed; npm ci --prefix bench/peers' });
    }
  }
  return { drivers, skipped };
}

/** @throws Error with the code `ERR_MODULE_NOT_FOUND` where bench/peers is not installed */
export async function loadPeer(
  file: string,
  name: string,
  tools: readonly TaskTool[],
): Promise<Driver> {
  const module: unknown = await import(new URL(`../../peers/${file}`, import.meta.url).href);
  return driverFrom(module, name, tools);
}

function isNotInstalled(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';
}
