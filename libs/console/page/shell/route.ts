import { useSyncExternalStore } from 'react';

/** The place in the page that the address names: `#/runs/ID` is the section `runs` with one step below it. */
export interface Route {
  readonly section: string;
  readonly path: readonly string[];
}

const FIRST = 'chat';

export function useRoute(): Route {
  const hash = useSyncExternalStore(watchHash, () => location.hash);
  const [section = FIRST, ...path] = hash.replace(/^#\/?/, '').split('/').filter(Boolean).map(decodeURIComponent);
  return { section, path };
}

export function hrefOf(...path: readonly string[]): string {
  return `#/${path.map(encodeURIComponent).join('/')}`;
}

export function go(...path: readonly string[]): void {
  location.hash = hrefOf(...path);
}

function watchHash(watcher: () => void): () => void {
  addEventListener('hashchange', watcher);
  return () => removeEventListener('hashchange', watcher);
}
