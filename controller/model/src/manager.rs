/// The label of every object that Limpet writes, with the value [`MANAGER`]. Objects without it are not ours.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] on our objects.
pub const MANAGER: &str = "limpet";
