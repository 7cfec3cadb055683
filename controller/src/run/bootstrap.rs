//! `limpet controller bootstrap`.

use crate::cli::BootstrapArgs;
use crate::output::{self, Output};
use crate::outputs::envoy::{BootstrapOptions, BootstrapTls, bootstrap};
use crate::outputs::json;
use crate::{Failure, Verdict};

/// Prints it.
pub(super) fn run(args: &BootstrapArgs, form: Output) -> Result<Verdict, Failure> {
    let tls = match (&args.ca, &args.certificate, &args.key) {
        (Some(ca), Some(certificate), Some(key)) => Some(BootstrapTls {
            trusted_ca: ca.clone(),
            certificate_chain: certificate.clone(),
            private_key: key.clone(),
            server_name: args.server_name.clone(),
        }),
        _ => None,
    };
    let (controller_host, controller_port) = args.xds.clone();
    let options = BootstrapOptions {
        gateway: args.gateway.clone(),
        node_id: args.node_id.clone(),
        controller_host,
        controller_port,
        tls,
        admin_port: args.admin_port,
    };
    let value = json::typed(&bootstrap(&options)).map_err(|error| Failure(error.to_string()))?;
    match form {
        Output::Json => output::print_json(&value)?,
        Output::Text => {
            let text = serde_saphyr::to_string(&value).map_err(|error| Failure(error.to_string()))?;
            output::print(&text)?;
        }
    }
    Ok(Verdict::Good)
}
