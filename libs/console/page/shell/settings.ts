import { useSyncExternalStore } from 'react';

/** What a person has chosen for their browser. */
export interface Settings {
  readonly theme: 'system' | 'light' | 'dark';
  readonly language: 'en' | 'de';
}

const KEY = 'toolloop-console';
const THEMES = ['system', 'light', 'dark'] as const;
const watchers = new Set<() => void>();

let current = read();

export function useSettings(): Settings {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    () => current,
  );
}

export function choose(change: Partial<Settings>): void {
  current = { ...current, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // a browser that keeps nothing forgets it with the page
  }
  show();
  for (const watcher of watchers) watcher();
}

/** The next theme in turn. */
export function nextTheme({ theme }: Settings): Settings['theme'] {
  return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'system';
}

/** Puts the theme and the language on the document, where the styles and screen readers look. */
export function show(): void {
  const { documentElement } = document;
  documentElement.dataset['theme'] = current.theme;
  documentElement.lang = current.language;
}

function read(): Settings {
  const kept = keptText();
  const theme = THEMES.find((one) => kept.includes(`"theme":"${one}"`)) ?? 'system';
  const isGerman = kept.includes('"language":')
    ? kept.includes('"language":"de"')
    : navigator.language.startsWith('de');
  return { theme, language: isGerman ? 'de' : 'en' };
}

function keptText(): string {
  try {
    return localStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}
