/** A `curl` of a page that asks the demo, as a request. */
export interface ShownRequest {
  readonly path: string;
  readonly user: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Absent for a GET. */
  readonly body: string | undefined;
}

/**
 * The requests of a shell code block, in order; a line that ends with a backslash goes on in the
 * next.
 */
export function requestsIn(shell: string): ShownRequest[] {
  const commands = shell.replaceAll('\\\n', ' ').trim().split('\n');
  return commands.map(requestOf);
}

function requestOf(command: string): ShownRequest {
  const [, path = ''] = /http:\/\/127\.0\.0\.1:3000(\S+)/.exec(command) ?? [];
  const [, user = ''] = /demo-(\w+)/.exec(command) ?? [];
  const [, body = command.includes('-X POST') ? '{}' : undefined] =
    /-d '([^']*)'/.exec(command) ?? [];
  const headers = Object.fromEntries(
    [...command.matchAll(/-H '([\w-]+): ([^']*)'/g)].map(([, name = '', value = '']) => [
      name,
      value,
    ]),
  );
  return { path, user, headers, body };
}
