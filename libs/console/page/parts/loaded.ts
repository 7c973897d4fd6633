import { useCallback, useEffect, useState } from 'react';

/** What a request has brought, or why it brought nothing. */
export interface Loaded<Value> {
  readonly value?: Value;
  readonly error?: Error;
  readonly reload: () => void;
}

/** Asks when the component is shown, and again by `reload`. Keep the function the same between two renderings. */
export function useLoaded<Value>(ask: () => Promise<Value>): Loaded<Value> {
  const [state, setState] = useState<Omit<Loaded<Value>, 'reload'>>({});
  const reload = useCallback(() => {
    ask().then(
      (value) => setState({ value }),
      (error: unknown) => setState({ error: error instanceof Error ? error : new Error(String(error)) }),
    );
  }, [ask]);
  useEffect(reload, [reload]);
  return { ...state, reload };
}
