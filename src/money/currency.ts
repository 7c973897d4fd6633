export enum Currency {
  Euro = 'EUR',
  Dollar = 'USD',
}
