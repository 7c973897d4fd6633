import { addressable } from '@toolloop/protocol';
import { useSyncExternalStore } from 'react';

/**
 * The place in the page that the address names: `#/runs/ID` is the section `runs` with one step
 * below it.
 */
export interface Route {
  readonly section: string;
  readonly path: readonly string[];
}

const FIRST = 'chat';

export function useRoute(): Route {
  return routeIn(useSyncExternalStore(watchHash, () => location.hash));
}

/**
 * Reads an address. A part that is no encoded text, such as one that was cut when it was copied, is
 * read as it stands.
 */
export function routeIn(hash: string): Route {
  const [section = FIRST, ...path] = hash
    .replace(/^#\/?/, '')
    .split('/')
    .filter(Boolean)
    .map(decoded);
  return { section, path };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Writes an address. */
export function hrefOf(...path: readonly string[]): string {
  return `#/${path.map((part) => encodeURIComponent(addressable(part))).join('/')}`;
}

export function go(...path: readonly string[]): void {
  location.hash = hrefOf(...path);
}

/** Changes the address of what is shown already, which the way back then does not lead through. */
export function rename(...path: readonly string[]): void {
  history.replaceState(null, '', hrefOf(...path));
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/** Reads the conversation that an address names; undefined for the one that is under way. */
export function conversationIn({ section, path }: Route): string | undefined {
  return section === FIRST ? path[0] : undefined;
}

function watchHash(watcher: () => void): () => void {
  addEventListener('hashchange', watcher);
  return () => removeEventListener('hashchange', watcher);
}
