import { type RawInput, RawTool, type RawToolDeclaration } from './raw-tool.js';

/**
 * Makes a tool of what only the client can do. A call of it goes through every check, then the run
 * waits (`waitingFor: 'client'`), and its client is sent the arguments as the UI may see them, in a
 * `pending-request` event. The client of the run's own actor answers once, by `RunService.answer`;
 * the result is checked and untrusted.
 *
 * @example
 * clientTool({
 *   id: 'screen__pick_colour',
 *   description: 'Lets the user pick a colour.',
 *   effect: 'read_only',
 *   output: { type: 'string' },
 * });
 */
export function clientTool<Input>({
  output,
  expiresAfterMs,
  labels,
  ...own
}: ClientToolDeclaration<Input>): RawTool {
  const isRead = own.effect === 'read_only';
  const declaration = {
    ...own,
    labels: { ...labels, returns: 'untrusted' },
    reveal: 'all',
    ...(!isRead && { idempotent: true }), // the method only hands on the one answer
  } as const;
  const client = { output, expiresAfterMs: expiresAfterMs ?? CLIENT_EXPIRES_AFTER_MS };
  return new RawTool(
    declaration,
    `client tool ${own.id}`,
    AT_THE_CLIENT,
    undefined,
    undefined,
    client,
  );
}

/** Ten minutes. */
export const CLIENT_EXPIRES_AFTER_MS = 600_000;

/** The part of a client's tool that the client does, as it was declared. */
export interface ClientDeclaration {
  readonly output: RawInput | undefined;
  readonly expiresAfterMs: number;
}

/** A tool that the client of a run calls: what it opens, picks or measures there. */
export interface ClientToolDeclaration<Input = unknown> extends Pick<
  RawToolDeclaration<Input>,
  | 'id'
  | 'description'
  | 'effect'
  | 'input'
  | 'when'
  | 'canCall'
  | 'preflight'
  | 'preview'
  | 'presentation'
  | 'patterns'
> {
  /** The form of its result: a DTO class, a Standard Schema or a JSON Schema. @default any JSON */
  readonly output?: RawInput;
  /** Its labels; what a client returns is never trusted. */
  readonly labels?: Omit<NonNullable<RawToolDeclaration['labels']>, 'returns'>;
  /**
   * The milliseconds that the client has. After them a read fails as `timeout`, and what changes
   * things as `unknown_outcome`. @default 600,000, ten minutes
   */
  readonly expiresAfterMs?: number;
}

const AT_THE_CLIENT = {
  execute(): never {
    throw new Error('The tool is called by its client.');
  },
};
