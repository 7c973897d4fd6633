import { type ComponentType, createElement, lazy, type ReactNode } from 'react';

/**
 * The marks of a page that has loaded itself anew for the script of a section, or for the words of
 * a language: one must not allow the other what it has used up.
 */
const MARKS = {
  section: 'toolloop-console-loaded-anew',
  words: 'toolloop-console-loaded-anew-for-words',
} as const;
/** The answers of a server that has the file no longer. */
const GONE: ReadonlySet<number> = new Set([404, 410]);

/** The failure to fetch a script. */
export class UnfetchedScript extends Error {
  override readonly name = 'UnfetchedScript';
}

/** The scripts that could not be fetched, each with the function that lets it be fetched again. */
const lost = new Set<() => void>();

/**
 * A section whose script is fetched when it is shown for the first time. One that could not be
 * fetched is fetched again once {@link forgetLost} was called.
 */
export function fetched<Props extends object>(
  load: () => Promise<{ readonly default: (props: Props) => ReactNode }>,
): ComponentType<Props> {
  const fetching = (): ComponentType<Props> => lazy(() => fetchSection(load, renew));
  const renew = (): void => {
    shown = fetching();
  };
  let shown = fetching();
  return (props) => createElement(shown, props);
}

/** Has the scripts that could not be fetched be fetched again when they are wanted next. */
export function forgetLost(): void {
  for (const renew of lost) renew();
  lost.clear();
}

/** Lets the page load itself anew once more: a person has asked to try again. */
export function allowLoad(): void {
  for (const purpose of ['section', 'words'] as const) forgetLoad(purpose);
}

async function fetchSection<Script>(
  load: () => Promise<Script>,
  renew: () => void,
): Promise<Script> {
  try {
    return await fetchScript(load, 'section');
  } catch (error) {
    lost.add(renew);
    throw error;
  }
}

/**
 * Fetches a script. If the server has it no longer, another release of the page is there: the page
 * loads itself anew, once for each purpose.
 *
 * @throws {UnfetchedScript} If it could not be fetched.
 */
export async function fetchScript<Script>(
  load: () => Promise<Script>,
  purpose: keyof typeof MARKS,
): Promise<Script> {
  const answers = new Answers();
  try {
    const script = await load();
    forgetLoad(purpose);
    return script;
  } catch (error) {
    if ((await answers.haveGone()) && mayLoad(purpose)) return await loadAnew();
    throw new UnfetchedScript(error instanceof Error ? error.message : String(error), {
      cause: error,
    });
  } finally {
    answers.end();
  }
}

/**
 * What the server answers meanwhile: an import that fails does not say with which status, nor which
 * of the scripts that it needs.
 */
class Answers {
  private readonly seen: PerformanceEntry[] = [];
  private readonly observer = new PerformanceObserver((list) =>
    this.seen.push(...list.getEntries()),
  );

  constructor() {
    this.observer.observe({ type: 'resource' });
  }

  /**
   * Tells whether the server has a script no longer. A browser may tell of the answer shortly after
   * the failure.
   */
  async haveGone(): Promise<boolean> {
    for (let looks = 0; looks < 5 && !this.seen.some(isGone); looks += 1)
      await new Promise((resolve) => setTimeout(resolve, 20));
    return this.seen.some(isGone);
  }

  end(): void {
    this.observer.disconnect();
  }
}

/**
 * Tells whether an entry is that of a script which the server has no longer: the section's own, or
 * one that it needs.
 */
function isGone(entry: PerformanceEntry): boolean {
  return (
    entry instanceof PerformanceResourceTiming &&
    GONE.has(entry.responseStatus) &&
    new URL(entry.name).pathname.endsWith('.js')
  );
}

function forgetLoad(purpose: keyof typeof MARKS): void {
  try {
    sessionStorage.removeItem(MARKS[purpose]);
  } catch {
    // a browser that keeps nothing never loads the page by itself
  }
}

/** Marks that the page is loaded anew; false if it was already, or if nothing can be marked. */
function mayLoad(purpose: keyof typeof MARKS): boolean {
  try {
    if (sessionStorage.getItem(MARKS[purpose]) !== null) return false;
    sessionStorage.setItem(MARKS[purpose], 'yes');
    return true;
  } catch {
    return false;
  }
}

/** Loads the page anew. It is over then, so that the promise never settles. */
function loadAnew(): Promise<never> {
  location.reload();
  return new Promise(() => undefined);
}
