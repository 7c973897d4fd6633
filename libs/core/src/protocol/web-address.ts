/** Whatever a provider, or the page it quotes, calls an address: a link to it must not run a script. */
export function isWebAddress(url: unknown): url is string {
  return typeof url === 'string' && /^https?:\/\//i.test(url);
}
