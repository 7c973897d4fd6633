import { useCallback, useEffect, useRef, useState } from 'react';

/** What a request has brought, or why it brought nothing. */
export interface Loaded<Value> {
  readonly value?: Value;
  readonly error?: Error;
  readonly reload: () => void;
}

/** What was brought, and by which function: what another one brings is another thing. */
interface Brought<Value> extends Omit<Loaded<Value>, 'reload'> {
  readonly by?: () => Promise<Value>;
}

/**
 * Asks when the component is shown, and again by `reload`; of two answers the one to the later
 * question is shown. Keep the function the same between two renderings.
 */
export function useLoaded<Value>(ask: () => Promise<Value>): Loaded<Value> {
  const [{ by, ...state }, setState] = useState<Brought<Value>>({});
  const asked = useRef(0);
  const reload = useCallback(() => {
    const own = (asked.current += 1);
    const show = (brought: Brought<Value>): void =>
      own === asked.current ? setState({ ...brought, by: ask }) : undefined;
    ask().then(
      (value) => show({ value }),
      (error: unknown) =>
        show({ error: error instanceof Error ? error : new Error(String(error)) }),
    );
  }, [ask]);
  useEffect(reload, [reload]);
  return { ...(by === ask && state), reload };
}
