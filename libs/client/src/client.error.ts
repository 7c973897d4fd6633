/** The refusal of a request by the server. */
export class ToolLoopHttpError extends Error {
  override readonly name = 'ToolLoopHttpError';

  constructor(
    readonly status: number,
    /**
     * The reason for programs, such as `unknown_run` or `not_permitted`; `http_404` and the like
     * where the server gave none.
     */
    readonly code: string,
    message: string,
    /** The milliseconds to wait before another attempt, where the server says so. */
    readonly retryAfterMs?: number,
    /** The single mistakes, where there are several. */
    readonly details: readonly string[] = [],
  ) {
    super(message);
  }
}

/**
 * The loss of a stream that could not be opened again. The run may continue, and `lastSequence` is
 * where to read on.
 */
export class ConnectionLostError extends Error {
  override readonly name = 'ConnectionLostError';

  constructor(
    /** The sequence of the last event that was shown; 0 for none. */
    readonly lastSequence: number,
    cause: unknown,
  ) {
    super('The connection to the server was lost before the run had ended.', { cause });
  }
}

/**
 * Reads a refusal. The body is `{ code, message, details? }`; anything else, such as the page of a
 * proxy, is told by its status.
 */
export async function readHttpError(response: Response): Promise<ToolLoopHttpError> {
  const body = (await response.json().catch((): unknown => undefined)) as unknown;
  const { status } = response;
  const told = typeof body === 'object' && body !== null ? body : {};
  const code = 'code' in told && typeof told.code === 'string' ? told.code : `http_${status}`;
  const message =
    'message' in told && typeof told.message === 'string'
      ? told.message
      : `The server answered with status ${status}.`;
  const details = 'details' in told && Array.isArray(told.details) ? told.details.map(String) : [];
  return new ToolLoopHttpError(
    status,
    code,
    message,
    retryAfterMsOf(response.headers.get('retry-after')),
    details,
  );
}

/** A number of seconds, or a date. */
function retryAfterMsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const milliseconds = /^\d+$/.test(header)
    ? Number(header) * 1000
    : Date.parse(header) - Date.now();
  return Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : undefined;
}
