/**
 * Node's arguments that run a file of the project in a process of its own: through SWC from the
 * sources, or what `tsc` emitted of it where the tests run on that too, which starts in a third of
 * the time. Its packages are then those of `npm run build`.
 */
export function programArguments(path: string): readonly string[] {
  if (import.meta.url.endsWith('.js')) return [`.build/${path.replace(/\.ts$/, '.js')}`];
  return ['--conditions=@toolloop/source', '--import', '@swc-node/register/esm-register', path];
}
