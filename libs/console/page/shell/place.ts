/**
 * The addresses of the page: it is served under any prefix, so that the server tells it where it
 * is.
 */
export interface Place {
  /** The page's own routes: session, feed. */
  readonly own: string;
  /** The routes of the application. */
  readonly api: string;
  readonly title: string;
  /** Answers requests in place of the network, in pages that have no server. */
  readonly fetch?: typeof fetch;
}

export function placeOf({ documentElement: { dataset }, baseURI }: Document): Place {
  const pathOf = (relative: string): string =>
    new URL(relative, baseURI).pathname.replace(/\/+$/, '');
  return {
    own: pathOf(dataset['own'] ?? '.'),
    api: pathOf(dataset['api'] ?? '..'),
    title: dataset['title'] ?? 'Toolloop',
  };
}
